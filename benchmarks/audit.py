"""Measures the time, the processor time and the peak memory of an audit of large pairs.

Processor time is that of the command and, by name, of the programs of its clusters: their last
reading before each ends.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measuring import ROOT, Result, at_most, unbounded

SECONDS, PROCESSOR_SECONDS, MEBIBYTES = 60.0, 25.0, 450.0
_NODES = 100
# The objects of the pair whose processor time has a bound.
_COMPARED = 242
_CODE = """
import json, resource, sys, threading, time
from pathlib import Path
from benchmarks.cluster_start import processor_seconds, resident_mebibytes
from inferplan.commands.audit.audit import audit
from inferplan.rehearsal.cluster.record import cluster_directories
programs, busy, over = [0.0], {}, threading.Event()
def watch():
    while not over.wait(1):
        try:
            for each in cluster_directories():
                busy.update(processor_seconds(each))
            programs.append(sum(map(resident_mebibytes, cluster_directories())))
        except OSError:
            pass  # a program has just ended
threading.Thread(target=watch, daemon=True).start()
began = time.monotonic()
result = audit("new.yaml", old="old.yaml", nodes=Path("nodes.yaml"))
seconds = time.monotonic() - began
over.set()
usage = resource.getrusage(resource.RUSAGE_SELF)
own = usage.ru_maxrss / 1024
shares = {"the command": usage.ru_utime + usage.ru_stime}
for (name, _), spent in busy.items():
    shares[name] = shares.get(name, 0) + spent
blocked = [each.object for each in result.findings.details if each.weight == "blocked"]
print(json.dumps([seconds, own, max(programs), shares, blocked]))
"""


def _deployment(index: int, image: str) -> dict[str, Any]:
    labels = {"app": f"server-{index}"}
    container = {"name": "server", "image": image, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"server-{index}"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _service(index: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"server-{index}"},
        "spec": {"selector": {"app": f"server-{index}"}, "ports": [{"port": 80}]},
    }


def _map(index: int, text: str) -> dict[str, Any]:
    metadata = {"name": f"map-{index}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": text}}


def pairs() -> Iterator[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Large changes that block nothing: their name, and both sides."""
    half = _COMPARED // 2
    services = [_service(index) for index in range(half)]
    sides = [
        [*services, *(_deployment(index, image) for index in range(half))]
        for image in ("vllm/vllm-openai:v0.11.0", "vllm/vllm-openai:v0.11.1")
    ]
    yield f"{half} Deployments with another image", sides[0], sides[1]
    maps = [
        [_map(index, "x" * 2000 if index % 10 else text) for index in range(4_000)]
        for text in ("old", "new")
    ]
    yield "4,000 ConfigMaps, one in ten another", maps[0], maps[1]


def figures() -> Iterator[Result]:
    pool = {"name": "gpu", "count": _NODES, "allocatable": {"nvidia.com/gpu": 8}}
    for name, old, new in pairs():
        with tempfile.TemporaryDirectory() as folder:
            for file, objects in (("old", old), ("new", new)):
                Path(folder, f"{file}.yaml").write_text(yaml.safe_dump_all(objects))
            Path(folder, "nodes.yaml").write_text(yaml.dump({"kind": "Fleet", "pools": [pool]}))
            state = {"INFERPLAN_STATE_DIR": str(Path(folder, "state")), "PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                [sys.executable, "-c", _CODE],
                cwd=folder,
                env=os.environ | state,
                stdout=subprocess.PIPE,
                check=True,
            )
        seconds, own, programs, shares, blocked = json.loads(done.stdout)
        load = f"{os.getloadavg()[0]:.1f}"
        yield at_most(f"{name}: time at load {load} (bound: load 4)", seconds, SECONDS, " s")
        of = ", ".join(f"{part} {spent:.1f} s" for part, spent in shares.items())
        if len(old) == _COMPARED:
            yield at_most(f"{name}: processor time", sum(shares.values()), PROCESSOR_SECONDS, " s")
        yield unbounded(f"{name}: processor time by program", of)
        yield at_most(f"{name}: peak memory of the command", own, MEBIBYTES, " MiB")
        yield unbounded(f"{name}: resident memory of the programs", f"{programs:.0f} MiB")
        yield unbounded(f"{name}: blocked", ", ".join(blocked[:3]) or "nothing")
