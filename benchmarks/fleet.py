"""Measures a fleet that is planned but not created, larger than one cluster can hold: 3,000 models
on 10,000 nodes in `plan`, `check` and `report`, and how each grows from a tenth of it.

Growth is of processor time, which a busy machine changes less than the clock.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measuring import ROOT, Result, at_most, unbounded
from benchmarks.scale import write_stack

SMALL, LARGE, GROWTH, MEMORY_MIB = 300, 3_000, 11.0, 2048.0


def figures() -> Iterator[Result]:
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        for models in (SMALL, LARGE):
            path, events = _fleet(Path(folder), models), Path(folder, f"{models}.json")
            for name, arguments in (
                ("plan", ("plan", str(path), "--events", str(events))),
                ("check", ("check", str(path))),
                ("report", ("report", str(events))),
            ):
                seconds, peak = measured[name, models] = measure(arguments)
                yield unbounded(
                    f"{name} of {models} models",
                    f"{seconds:.1f} s of processor time, {peak:.0f} MiB",
                )
    for name in ("plan", "check", "report"):
        (small, _), (large, peak) = (measured[name, models] for models in (SMALL, LARGE))
        yield at_most(f"{name} of {LARGE} models relative to {SMALL}", large / small, GROWTH)
        yield at_most(f"{name} of {LARGE} models: memory", peak, MEMORY_MIB, " MiB")


def _fleet(folder: Path, models: int) -> Path:
    """The stack of `scale`, whose models share two pools (one has at most 5,000 nodes), with TLS
    (only the stack `local` may do without).
    """
    path = write_stack(folder, models)
    text = path.read_text("utf-8").replace("insecure: true", "tls: {secretName: tls}")
    pool, count = re.findall(r"( +l40s: .* nodes: ([0-9]+).*\n)", text)[0]
    half = pool.replace(f"nodes: {count}", f"nodes: {int(count) // 2}")
    text = text.replace(pool, half + half.replace("l40s:", "l40s-b:"))
    first, middle, second = text.partition(f"    model-{models // 2}:\n")
    path.write_text(first + middle + second.replace("pool: l40s\n", "pool: l40s-b\n"), "utf-8")
    return path


def measure(arguments: Sequence[str]) -> tuple[float, float]:
    """Processor seconds and the most MiB of one command of inferplan."""
    command = [str(Path(sys.executable).parent / "inferplan"), *arguments]
    environment = {**os.environ, "PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
