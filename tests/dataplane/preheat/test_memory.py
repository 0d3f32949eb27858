"""How much memory a run takes: bounded, and the same for a large file as for a small one."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from inferplan.components.sources import WebStore

from .rig import MIB

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]

MOST = 256 * MIB
# Both keep all streams busy.
SMALL, LARGE = 256 * MIB, 768 * MIB


def resident(pid: int) -> int:
    """Bytes of a process and all that it started; what several of them share counts once."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            total += sum(resident(int(child)) for child in (task / "children").read_text().split())
        except OSError:
            continue
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return total
    return total + sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def peak_of(job, web, size):
    files = {"model.gguf": random.Random(1).randbytes(MIB) * (size // MIB)}  # noqa: S311 - noise for a file, nothing secret
    web.put(files, "llm/tiny-llm")
    made = job(
        source=WebStore(address=f"{web.url}/llm"),
        tuning={"segment_bytes": 64 * MIB, "stall_seconds": 60.0, "lease_seconds": 45.0},
    )
    del made.env["GOGC"]
    process, peak = made.start(), 0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.02)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert made.files() == files
    return peak


def test_a_run_stays_below_256_mib_however_large_the_file_is(job, web, tmp_path):
    peaks = {}
    for size in (SMALL, LARGE):
        share = tmp_path / f"share-{size}"
        share.mkdir()
        peaks[size] = peak_of(lambda share=share, **more: job(target=share, **more), web, size)
    assert peaks[LARGE] < MOST, peaks
    assert peaks[LARGE] < peaks[SMALL] + 64 * MIB, peaks
