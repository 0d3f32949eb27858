"""Measures the CPU time and the peak memory of a report on a thousand resources, and on ten
thousand that are all updated, relative to reading the JSON and to importing Pulumi.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Result, at_most, median_ratio
from tests.review_streams import step

FORMS = ("markdown", "html", "json")
MEMORY, IMPORTS = 4.0, 15.0
LIMITS = (
    (1_000, 10, ("markdown",), 8.0),
    *((10_000, 1, (form,), 8.0) for form in FORMS),
    (10_000, 1, FORMS, float("inf")),
)
"""Resources, of how many one changes, forms of the report, most processor time relative to Python's
json reading the same events.
"""
_JSON = "import json, sys\nfor line in open(sys.argv[1], encoding='utf-8'): json.loads(line)"
_IMAGE = "spec.template.spec.containers[0].image"
_CODE = """
import pathlib, sys
from inferplan.review.rendering import html, markdown
from inferplan.review.reading.reader import read_file
from inferplan.review.report import as_json, make_report
path, count, *forms = sys.argv[1:]
report = make_report([read_file(pathlib.Path(path))])
assert sum(report.stacks[0].counts.values()) == int(count), report.stacks[0].counts
renderers = {"markdown": markdown.render, "html": html.render, "json": as_json}
for form in forms:
    sys.stdout.write(renderers[form](report))
"""


def events(count: int, change_each: int) -> Iterator[dict[str, Any]]:
    """A preview of `count` Deployments, of which one in `change_each` is updated; one in ten of
    these is replaced if others stay.
    """
    yield {"preludeEvent": {"config": {}}}
    counts: Counter[str] = Counter()
    for index in range(count):
        op = "update" if index % change_each == 0 else "same"
        if change_each > 1 and index % (10 * change_each) == 0:
            op = "replace"
        counts[op] += 1
        for part in (
            ("create-replacement", "replace", "delete-replaced") if op == "replace" else (op,)
        ):
            change = {
                _IMAGE: {
                    "diffKind": "update-replace" if "replace" in part else "update",
                    "inputDiff": False,
                }
            }
            old, new = (
                _inputs(index, "a"),
                (
                    None
                    if part == "delete-replaced"
                    else _inputs(index, "a" if part == "same" else "b")
                ),
            )
            diff = None if part == "same" else change
            event = step(
                part,
                "kubernetes:apps/v1:Deployment",
                f"model-{index}",
                old,
                new,
                diff=diff,
                logical=part == op,
            )
            yield {"resourcePreEvent": event["resOutputsEvent"]}
            yield event
    yield {
        "summaryEvent": {
            "maybeCorrupt": False,
            "resourceChanges": counts,
            "isPreview": True,
            "result": "succeeded",
        }
    }


def _inputs(index: int, image: str) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": image,
        "args": [f"--option-{each}={index}" for each in range(30)],
        "env": [{"name": f"VARIABLE_{each}", "value": str(each)} for each in range(20)],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}},
    }
    spec = {
        "replicas": 2,
        "template": {
            "metadata": {"labels": {"app": str(index)}},
            "spec": {"containers": [container]},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"m-{index}"},
        "spec": spec,
    }


def measure(path: Path, count: int, forms: Sequence[str]) -> tuple[float, float]:
    """Seconds of CPU time, and peak MiB, of a report on the `count` resources in `path`; of reading
    its JSON if `forms` is empty.
    """
    return _costs(_CODE if forms else _JSON, str(path), str(count), *forms)


def _costs(code: str, *arguments: str) -> tuple[float, float]:
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "the report")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def figures() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        for count, change_each, forms, most in LIMITS:
            path = Path(folder) / f"{count}.ndjson"
            if not path.exists():
                with path.open("w", encoding="utf-8") as stream:
                    stream.writelines(
                        json.dumps(each) + "\n" for each in events(count, change_each)
                    )
            pairs = [(measure(path, count, forms), measure(path, count, ())) for _ in range(3)]
            time, memory = (
                median_ratio(
                    *zip(*((report[each], reading[each]) for report, reading in pairs), strict=True)
                )
                for each in (0, 1)
            )
            name = (
                f"report on {count} resources ({path.stat().st_size >> 20} MiB of events) as"
                f" {', '.join(forms)}"
            )
            yield at_most(f"{name}, relative to json.loads of each line", time, most)
            if len(forms) == 1 and change_each == 1:
                imports = min(_costs("import pulumi")[0] for _ in range(3))
                fastest = min(report[0] for report, _ in pairs)
                yield at_most(f"{name}, relative to import pulumi", fastest / imports, IMPORTS)
            yield at_most(f"{name}, memory relative to the same", memory, MEMORY)
