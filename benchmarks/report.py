"""Measures the CPU time and the peak memory of a report on a thousand resources, and on ten thousand that are all updated.

Run as `python -m benchmarks.report`; each measurement is a process of its own, import time included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ending import ended

FORMS = ("markdown", "html", "json")
LIMITS = (
    (1_000, 10, ("markdown",), 1.0, 150.0),
    *((10_000, 1, (form,), 5.0, 150.0) for form in FORMS),
    (10_000, 1, FORMS, float("inf"), 150.0),
)
"""Resources, of how many one changes, forms of the report, most seconds of CPU time, most MiB."""
_TYPE = "kubernetes:apps/v1:Deployment"
_STACK = "urn:pulumi:dev::bench::pulumi:pulumi:Stack::bench-dev"
_CODE = """
import pathlib, sys
from review import html, markdown
from review.reader import read_file
from review.report import as_json, make_report
path, count, *forms = sys.argv[1:]
report = make_report([read_file(pathlib.Path(path))])
assert sum(report.stacks[0].counts.values()) == int(count), report.stacks[0].counts
renderers = {"markdown": markdown.render, "html": html.render, "json": as_json}
for form in forms:
    sys.stdout.write(renderers[form](report))
"""


def events(count: int, change_each: int) -> Iterator[dict[str, Any]]:
    """A preview of `count` Deployments, of which one in `change_each` is updated; one in ten of these is replaced if others stay."""
    yield {"preludeEvent": {"config": {}}}
    counts: dict[str, int] = {}
    for index in range(count):
        changes = index % change_each == 0
        op = "same" if not changes else "replace" if change_each > 1 and index % (10 * change_each) == 0 else "update"
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


def measure(path: Path, count: int, forms: Sequence[str]) -> tuple[float, float]:
    """Seconds of CPU time, and peak MiB, of a report on the `count` resources in `path`."""
    with subprocess.Popen([sys.executable, "-c", _CODE, str(path), str(count), *forms], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "the report")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    """Prints one line per measurement; 1 when a limit is broken."""
    broken = False
    with tempfile.TemporaryDirectory() as folder:
        for count, change_each, forms, most_seconds, most_mib in LIMITS:
            path = Path(folder) / f"{count}.ndjson"
            if not path.exists():
                with path.open("w", encoding="utf-8") as stream:
                    stream.writelines(json.dumps(each) + "\n" for each in events(count, change_each))
            runs = [measure(path, count, forms) for _ in range(3)]
            seconds, mib = min(each[0] for each in runs), max(each[1] for each in runs)
            broken |= seconds > most_seconds or mib > most_mib
            size = path.stat().st_size / 2**20
            print(
                f"report on {count} resources ({size:.0f} MiB of events) as {', '.join(forms)}: "
                f"{seconds:.2f} s of CPU (limit {most_seconds:g}), {mib:.0f} MiB (limit {most_mib:g})"
            )
    return int(broken)


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.report"))
