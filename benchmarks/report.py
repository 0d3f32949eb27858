"""Times a report on captured states of a thousand resources, and of ten thousand, with its peak memory.

Run as `python -m benchmarks.report [RESOURCES]`; each measurement is a process of its own, import time included.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.ending import ended

LIMITS = {1_000: (1.0, 150.0), 10_000: (10.0, float("inf"))}
_TYPE = "kubernetes:apps/v1:Deployment"
_STACK = "urn:pulumi:dev::bench::pulumi:pulumi:Stack::bench-dev"
_CODE = """
import sys, pathlib
from review import html, markdown
from review.json import render
from review.reader import read_file
from review.report import make_report
report = make_report([read_file(pathlib.Path(sys.argv[1]))])
assert sum(report.stacks[0].counts.values()) == int(sys.argv[2]), report.stacks[0].counts
sys.stdout.write(markdown.render(report))
"""


def events(count: int) -> Iterator[dict[str, Any]]:
    """A preview of `count` Deployments: one in ten changes, one in a hundred is replaced."""
    yield {"preludeEvent": {"config": {}}}
    counts: dict[str, int] = {}
    for index in range(count):
        op = "replace" if index % 100 == 0 else "update" if index % 10 == 0 else "same"
        counts[op] = counts.get(op, 0) + 1
        for part in ("create-replacement", "replace", "delete-replaced") if op == "replace" else (op,):
            for kind in ("resourcePreEvent", "resOutputsEvent"):
                yield {kind: {"metadata": _metadata(part, index, logical=part == op), "planning": True}}
    yield {"summaryEvent": {"maybeCorrupt": False, "resourceChanges": counts, "isPreview": True, "result": "succeeded"}}


def _metadata(op: str, index: int, *, logical: bool) -> dict[str, Any]:
    urn = f"urn:pulumi:dev::bench::{_TYPE}::model-{index}"

    def state(image: str) -> dict[str, Any]:
        container = {
            "name": "server",
            "image": image,
            "args": [f"--option-{each}={index}" for each in range(30)],
            "env": [{"name": f"VARIABLE_{each}", "value": str(each)} for each in range(20)],
            "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}},
        }
        template = {"metadata": {"labels": {"app": str(index)}}, "spec": {"containers": [container]}}
        inputs = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"m-{index}"},
            "spec": {"replicas": 2, "template": template},
        }
        return {"type": _TYPE, "urn": urn, "custom": True, "id": f"x/m-{index}", "parent": _STACK, "inputs": inputs, "outputs": inputs}

    path = "spec.template.spec.containers[0].image"
    diff = None if op == "same" else {path: {"diffKind": "update-replace" if "replace" in op else "update", "inputDiff": False}}
    new = None if op == "delete-replaced" else state("a" if op == "same" else "b")
    return {"op": op, "urn": urn, "type": _TYPE, "old": state("a"), "new": new, "detailedDiff": diff, "logical": logical}


def measure(count: int) -> tuple[float, float, float]:
    """Seconds, peak MiB, and size of the stream in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.ndjson"
        with path.open("w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(each) + "\n" for each in events(count))
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", _CODE, str(path), str(count)], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        return seconds, peak, path.stat().st_size / 2**20


def main(arguments: list[str]) -> int:
    """Prints a line for each number of resources; 1 when a limit is broken."""
    broken = False
    for count in [int(each) for each in arguments] or list(LIMITS):
        runs = [measure(count) for _ in range(3 if count <= 1_000 else 1)]
        seconds, peak = min(each[0] for each in runs), max(each[1] for each in runs)
        most_seconds, most_peak = LIMITS.get(count, (float("inf"), float("inf")))
        broken |= seconds > most_seconds or peak > most_peak
        print(
            f"report on {count} resources ({runs[0][2]:.1f} MiB of events): {seconds:.2f} s (limit {most_seconds:g}), {peak:.0f} MiB (limit {most_peak:g})"
        )
    return int(broken)


if __name__ == "__main__":
    sys.exit(ended(lambda: main(sys.argv[1:]), "benchmarks.report"))
