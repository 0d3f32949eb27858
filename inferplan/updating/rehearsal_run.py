"""Brings one revision of a stack up on the simulated cluster and records what happens, one JSON
object per line.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

from inferplan.kube.objects import condition
from inferplan.rehearsal.cluster import Cluster

_CATCH_UP_SECONDS = 30.0
# Short answers, so that clients send often: a fake pod is replaced within a fraction of a second.
_PROFILE = "ttft=50ms,itl=5ms"


class Diary:
    """A file with one record per line, each with the seconds since the run began. Threads may share
    it.
    """

    def __init__(self, path: Path) -> None:
        self._stream = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def write(self, kind: str, **fields: Any) -> None:
        """Write one record at once, because the run may be interrupted at any moment."""
        with self._lock:
            record = {"at": round(time.monotonic() - self._began, 3), "kind": kind, **fields}
            self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._stream.flush()


def main(stack: str, path: Path) -> int:
    """Run the stack of the current folder and write the diary to `path`. Returns 0 if everything
    got ready.
    """
    diary = Diary(path)
    try:
        _run(stack, diary)
    except Exception as error:  # noqa: BLE001 - every error of the stack or the cluster is a finding
        diary.write("refused", message=str(error) or type(error).__name__)
        return 1
    return 0


def _run(stack: str, diary: Diary) -> None:
    from inferplan.client.local_gateway.gateway import LocalGateway
    from inferplan.progress import silent
    from inferplan.workspace.simulated_cluster import own_cluster
    from inferplan.workspace.workspace import open_workspace

    workspace = open_workspace(stack)
    for name, spec in workspace.settings.models.items():
        diary.write("model", name=name, seconds=_load_seconds(spec))
    cluster, local = own_cluster(workspace), LocalGateway(workspace, profile=[_PROFILE])
    with _observed(cluster, diary):
        outcome = workspace.apply(
            cluster,
            listener=local.following(cluster, lambda event: _note(diary, event)),
            step=silent,
        )
    if local.problem:
        diary.write("uncalled", model="", message=local.problem)
    local.bring_up(cluster)
    for target in outcome.deleted:
        diary.write("pruned", target=str(target))
    diary.write("done", seconds=round(outcome.seconds, 1))


def _load_seconds(spec: Any) -> int | None:
    """Seconds to read the weights and to warm up, None if the model does not state its size."""
    from inferplan.kube.quantity import bytes_of

    size, rate = (
        getattr(spec.stored_files, "size", None),
        getattr(spec, "load_mib_per_second", None),
    )
    if size is None or not rate:
        return None
    return round(bytes_of(size) / 2**20 / rate) + (getattr(spec, "warmup_seconds", None) or 0)


def _note(diary: Diary, event: Any) -> None:
    fields = {
        name: getattr(event, name)
        for name in ("change", "note", "reason", "message", "remedy", "because")
        if hasattr(event, name)
    }
    diary.write(type(event).__name__.lower(), target=str(event.target), **fields)


@contextlib.contextmanager
def _observed(cluster: Cluster, diary: Diary) -> Iterator[None]:
    """Write the states of Deployments and Pods into `diary` while the block runs, the last ones
    too.
    """
    from inferplan.rehearsal.wait.watching import Watching

    seen, news = dict.fromkeys(_LOOKS, 0), threading.Condition()

    def look(live: dict[str, Any], gone: bool) -> None:  # noqa: FBT001 - named by Watching
        kind = live["kind"]
        if not gone:
            _LOOKS[kind](diary, live)
        with news:
            seen[kind] = max(seen[kind], int(live["metadata"]["resourceVersion"]))
            news.notify_all()

    with contextlib.closing(cluster.api()) as api, contextlib.ExitStack() as stack:
        watching = Watching(api, look)
        stack.callback(watching.stop)
        for kind, version in _VERSIONS.items():
            watching.observe(version, kind)
        yield
        # A watch is later than other connections.
        for kind, version in _VERSIONS.items():
            listed = api.request("GET", api.resource(version, kind).path())["items"]
            newest = max((int(each["metadata"]["resourceVersion"]) for each in listed), default=0)
            with news:
                news.wait_for(
                    lambda kind=kind, newest=newest: seen[kind] >= newest, _CATCH_UP_SECONDS
                )


def _deployment(diary: Diary, live: dict[str, Any]) -> None:
    status = live.get("status", {})
    diary.write(
        "replicas",
        name=live["metadata"]["name"],
        wanted=live["spec"].get("replicas", 1),
        ready=status.get("readyReplicas", 0),
    )


def _pod(diary: Diary, live: dict[str, Any]) -> None:
    scheduled = condition(live, "PodScheduled")
    if scheduled.get("status") == "False":
        diary.write(
            "pending",
            pod=live["metadata"]["name"],
            reason=scheduled.get("message", scheduled.get("reason", "")),
        )


_LOOKS = {"Deployment": _deployment, "Pod": _pod}
_VERSIONS = {"Deployment": "apps/v1", "Pod": "v1"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
