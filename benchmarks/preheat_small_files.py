"""Measures a preheat of 100,000 files of 1 KiB without checksums, from one directory to another: memory and time.

Both directories are in memory. Each file is copied, read back, and read at the source a second time. The bound on memory
is the Job's promise; the bound on time is generous, because a busy machine may take several times as long as an idle one.
Run it on its own: `python -m benchmarks.preheat_small_files [count]`.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Result, at_most, folder_in_memory, run
from benchmarks.preheat_processes import DIRECTORY, preheat

FILES, FILE_BYTES, PER_FOLDER = 100_000, 1024, 1000
MEMORY_MIB, SECONDS = 256, 600


def figures() -> Iterator[Result]:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    with folder_in_memory() as folder:
        source, share = Path(folder) / "source", Path(folder) / "share"
        _write_files(source, count)
        share.mkdir()
        began = time.monotonic()
        peak, output = preheat(share, {"PATH": os.environ["PATH"]}, kind="local", root=str(source))
        seconds = time.monotonic() - began
        if f"{count} files" not in output or not (share / DIRECTORY / "READY").is_file():
            raise SystemExit(output)
    yield at_most(f"memory for {count} files of {FILE_BYTES} bytes", peak, MEMORY_MIB, " MiB")
    yield at_most("time of the same", seconds, SECONDS, " s")


def _write_files(folder: Path, count: int) -> None:
    noise = random.Random(1)  # noqa: S311 - noise for files, nothing secret
    for number in range(count):
        path = folder / f"part-{number // PER_FOLDER:03}" / f"file-{number:06}.json"
        if not number % PER_FOLDER:
            path.parent.mkdir(parents=True)
        path.write_bytes(noise.randbytes(FILE_BYTES))


if __name__ == "__main__":
    run(figures, "benchmarks.preheat_small_files")
