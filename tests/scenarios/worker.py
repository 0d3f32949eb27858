"""Runs updates of the rehearsal in children of one warm process, so that each can be interrupted or
killed at an exact moment.

Reads one job a line from standard input and answers each with one line. It judges nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

from tests.scenarios.deadlines import shorten

ROOT = Path(__file__).resolve().parents[2]
SENT = threading.Event()
SIGNALS = {"interrupted": signal.SIGINT, "killed": signal.SIGKILL}


def main() -> None:
    """Serves jobs until standard input ends."""
    _warm_up()
    for line in sys.stdin:
        print(json.dumps(_in_child(json.loads(line))), flush=True)


def _warm_up() -> None:
    shorten()
    # Everything that a run imports, so that a child costs a fork; no thread may run in this
    # process.
    for module in (
        "inferplan.infra.compose",
        "inferplan.rehearsal.apply.run",
        "inferplan.rehearsal.cluster",
    ):
        importlib.import_module(module)

    os.chdir(ROOT)


def _in_child(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("r", suffix=".json") as told:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                Path(told.name).write_text(json.dumps(_run(job)))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        text = told.read()
    return {
        "cut": os.WIFSIGNALED(status),
        **(json.loads(text) if text else {"ok": False, "error": f"ended with {status}"}),
    }


def _run(job: dict[str, Any]) -> dict[str, Any]:
    from inferplan.progress import silent
    from inferplan.pulumi_engine.program.record import record
    from inferplan.rehearsal.apply.run import apply
    from inferplan.rehearsal.cluster import start
    from inferplan.rehearsal.cluster.definitions import installer
    from inferplan.updating.update import patch_simulated_volume
    from inferplan.updating.volumes import settle_volumes
    from inferplan.workspace.declared import declared_keys
    from inferplan.workspace.live import LiveCluster

    # Only the main thread takes a Ctrl-C, as in a command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ending, _, number = job["ending"].partition(" at ")
    if number:
        _end_at(int(number), SIGNALS[ending])
    cluster = start(job["cluster"])
    config = {
        f"inferplan:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in job["config"].items()
    }
    os.environ["INFERPLAN_KUBECONFIG"] = str(cluster.kubeconfig)
    stack = {
        "project": "inferplan",
        "stack": job["cluster"],
        "config": config,
        "secret_keys": ("inferplan:apiKeySeed",),
    }
    try:
        # The two steps of `inferplan up`.
        declared = declared_keys(record(_program, **stack), job["config"]["namespace"])
        settle_volumes(
            declared,
            LiveCluster(cluster.get),
            partial(patch_simulated_volume, cluster),
            say=_ignore,
        )
        outcome = apply(_program, cluster, **stack, ensure_crds=installer(cluster, silent))
    except KeyboardInterrupt:
        return {"ok": False, "cut": SENT.is_set(), "error": "interrupted"}
    except Exception as error:  # noqa: BLE001 - how it ends is the answer, whatever the reason
        return {"ok": False, "cut": SENT.is_set(), "error": str(error) or type(error).__name__}
    changes = [*outcome.created, *outcome.changed, *outcome.replaced, *outcome.deleted]
    return {"ok": True, "error": "", "changes": [str(each) for each in changes]}


def _ignore(text: str) -> None:
    del text


def _program() -> None:
    from inferplan.infra.program import REHEARSAL

    REHEARSAL.set(True)
    runpy.run_path(str(ROOT / "inferplan" / "infra"), run_name="__main__")


def _end_at(number: int, how: signal.Signals) -> None:
    """Send this process `how` when its `number`-th request that changed something was answered."""
    from inferplan.kube.api import Api, ApiError

    send, lock, left = Api._send, threading.Lock(), [number]

    def watched(self: Api, method: str, path: str, *args: Any, **more: Any) -> tuple[int, Any]:
        if method == "GET" or left[0] <= 0 or "dryRun" in (more.get("query") or {}):
            return send(self, method, path, *args, **more)
        try:
            before = send(self, "GET", path)[1]["metadata"]["resourceVersion"]
        except ApiError:
            before = ""
        answer = send(self, method, path, *args, **more)
        if method == "DELETE" or answer[1].get("metadata", {}).get("resourceVersion") != before:
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    SENT.set()
                    os.kill(os.getpid(), how)
        return answer

    Api._send = watched  # type: ignore[method-assign] - the process ends with this run


if __name__ == "__main__":
    main()
