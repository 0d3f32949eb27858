"""Compares a verified preheat of 20,000 files of 8 KiB from a directory with rclone, in one run.

The preheat reads each file at the source, at the copy, and at the source again; rclone's copy reads
it once, and its check both sides. Both directories are in memory. Compared is processor time, which
a busy machine changes little.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Result, at_most, cost, folder_in_memory, median_ratio, unbounded
from benchmarks.preheat_processes import preheat

FILES, HALF_BYTES, PER_FOLDER, ROUNDS = 20_000, 4096, 1000, 3
MOST_FOR_MANY = 1.3


def figures() -> Iterator[Result]:
    if shutil.which("rclone") is None:
        yield unbounded(
            "many files", "skipped, there is no rclone on PATH (apt-get install rclone)"
        )
        return
    times: dict[str, list[float]] = {"preheat": [], "copy": [], "copy and check": []}
    with folder_in_memory() as folder:
        source, share, copy = (Path(folder) / name for name in ("source", "share", "copy"))
        _write_files(source)
        for _ in range(ROUNDS):
            for path in (share, copy):
                shutil.rmtree(path, ignore_errors=True)
            share.mkdir()
            times["copy"].append(cost(lambda: _rclone("copy", source, copy))[1])
            checked = cost(lambda: _rclone("check", "--download", source, copy))[1]
            times["copy and check"].append(times["copy"][-1] + checked)
            times["preheat"].append(cost(lambda: _preheat(source, share))[1])
    ours = times.pop("preheat")
    yield unbounded(f"preheat of {FILES} files", f"{min(ours):.1f} s of processor time")
    copied, checked = times.values()
    text = "processor time of a verified preheat relative to rclone"
    yield unbounded(f"{text} copy", f"{median_ratio(ours, copied):.2f}")
    yield at_most(f"{text} copy and check", median_ratio(ours, checked), MOST_FOR_MANY)


def _preheat(source: Path, share: Path) -> None:
    _, output = preheat(share, {"PATH": os.environ["PATH"]}, kind="local", root=str(source))
    if f"{FILES} files" not in output:
        raise SystemExit(output)


def _rclone(*arguments: str | Path) -> None:
    command = ["rclone", "--config", "", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def _write_files(folder: Path) -> None:
    noise = random.Random(1)  # noqa: S311 - noise for files, nothing secret
    for number in range(FILES):
        path = folder / f"part-{number // PER_FOLDER:03}" / f"file-{number:06}.txt"
        if not number % PER_FOLDER:
            path.parent.mkdir(parents=True)
        # Text, because a few of so many random files look like pickles.
        path.write_text(noise.randbytes(HALF_BYTES).hex())
