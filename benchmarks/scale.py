"""Measures a stack of 300 models on 1,000 fake nodes with 3,000 pods, and how each phase grows from
a tenth of it.

Growth and bounds are of processor time of this program, and of calls of the API. Growth is relative
to a fixed piece of work before and after each phase: on a busy machine both take longer, and the
larger stack runs for an hour. As a program it is the process that is measured, and its argument is a
stack file.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measuring import (
    ROOT,
    Result,
    at_most,
    cost,
    models_section,
    timed,
    unbounded,
)
from inferplan.commands.main import COLLECTOR
from inferplan.kube.api import Api
from inferplan.progress import silent
from inferplan.rehearsal.apply.run import down
from inferplan.rehearsal.cluster import delete, start
from inferplan.workspace.workspace import open_workspace

SMALL, LARGE, NODES_EACH, REPLICAS = 30, 300, 1000 / 300, 10
GROWTH, PLAN_SECONDS, MEMORY_MIB = 11.0, 12.0, 1024.0


def write_stack(directory: Path, models: int) -> Path:
    """The local stack with `models` models of ten replicas in place of its own."""
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text(encoding="utf-8")
    start, end = text.index("  inferplan:models:"), text.index("  inferplan:gateway:")
    head = (
        text[:start]
        .replace("g6e.12xlarge, nodes: 2", f"g6e.12xlarge, nodes: {round(models * NODES_EACH)}")
        .replace("2Ti", "100Ti")
    )
    path = directory / f"Pulumi.scale{models}.yaml"
    path.write_text(
        f"{head}  inferplan:models:\n{models_section(models, replicas=REPLICAS)}{text[end:]}",
        encoding="utf-8",
    )
    return path


def _fixed_work() -> float:
    """Processor seconds of a piece of work that never changes, the median of three."""
    text = json.dumps([{"name": str(number), "values": [number] * 20} for number in range(2_000)])
    return median(timed(lambda: json.loads(text), time.process_time) for _ in range(3))


def phases(path: Path) -> dict[str, Any]:
    """Seconds on the clock and of the processor for each phase, and the calls of the API; in a
    process like that of the CLI.
    """
    results: dict[str, Any] = {}
    calls, send = [0], Api._send  # noqa: SLF001 - every call of a client goes through it

    def counted(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        return send(*arguments, **options)

    Api._send = counted  # noqa: SLF001 - see above
    gc.set_threshold(*COLLECTOR)

    def phase(name: str, work: Callable[[], Any]) -> Any:
        fixed = _fixed_work()
        began, processor, before = time.perf_counter(), time.process_time(), calls[0]
        value = work()
        results[name] = {
            "seconds": time.perf_counter() - began,
            "processor": time.process_time() - processor,
            "calls": calls[0] - before,
        }
        results[name]["relative"] = results[name]["processor"] * 2 / (fixed + _fixed_work())
        results["mebibytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return value

    workspace = phase("read and validate", lambda: open_workspace(str(path)))
    phase("register", workspace.record)
    cluster = phase("start the cluster", lambda: start(workspace.stack))
    try:
        phase("up", lambda: workspace.apply(cluster, listener=lambda _event: None, step=silent))
        phase(
            "up without changes",
            lambda: workspace.apply(cluster, listener=lambda _event: None, step=silent),
        )
        api = cluster.api()
        pods = api.request(
            "GET",
            "/api/v1/namespaces/inference/pods",
            query={"labelSelector": "app.kubernetes.io/component=model"},
        )["items"]
        results["pods"] = sum(
            any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in pod["status"]["conditions"]
            )
            for pod in pods
        )
        results["nodes"] = len(api.request("GET", "/api/v1/nodes")["items"])
        api.close()
        phase("down", lambda: down(cluster))
    finally:
        delete(workspace.stack)
    return results


def figures() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
            "INFERPLAN_STATE_DIR": f"{directory}/state",
        }
        measured: dict[int, dict[str, Any]] = {}
        for models in (SMALL, LARGE):
            path = write_stack(Path(directory), models)
            command = [str(Path(sys.executable).parent / "inferplan"), "plan", str(path)]
            fixed = _fixed_work()
            seconds, processor = cost(
                partial(
                    subprocess.run,
                    command,
                    cwd=ROOT,
                    env=environment,
                    capture_output=True,
                    check=True,
                )
            )
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            relative = processor * 2 / (fixed + _fixed_work())
            plan = {
                "seconds": seconds,
                "processor": processor,
                "calls": 0,
                "relative": relative,
            }
            done = subprocess.run(
                [sys.executable, __file__, str(path)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            measured[models] = {"plan": plan, "plan mebibytes": memory, **json.loads(done.stdout)}
            yield unbounded(
                f"{models} models: nodes and ready pods",
                f"{measured[models]['nodes']}, {measured[models]['pods']}",
            )
            for name, each in measured[models].items():
                if isinstance(each, dict):
                    text = (
                        f"{each['seconds']:.1f} s, {each['processor']:.1f} s of the processor,"
                        f" {each['calls']} calls of the API"
                    )
                    yield unbounded(f"{models} models: {name}", text)
        small, large = measured[SMALL], measured[LARGE]
        yield at_most(
            f"{LARGE} models: plan, processor time", large["plan"]["processor"], PLAN_SECONDS, " s"
        )
        yield at_most(
            f"{LARGE} models: memory of the plan", large["plan mebibytes"], MEMORY_MIB, " MiB"
        )
        yield at_most(f"{LARGE} models: memory of up", large["mebibytes"], MEMORY_MIB, " MiB")
        for name in ("plan", "up", "up without changes", "down"):
            for unit, said in (("relative", "processor time"), ("calls", "calls")):
                if small[name][unit]:
                    yield at_most(
                        f"{LARGE} models relative to {SMALL}: {name}, {said}",
                        large[name][unit] / small[name][unit],
                        GROWTH,
                    )


if __name__ == "__main__":
    print(json.dumps(phases(Path(sys.argv[1]))))
