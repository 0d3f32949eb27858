"""Measures a preheat of 100,000 files of 1 KiB without checksums, from one directory to another:
memory and time.

Both directories are in memory. Each file is copied, read back, and read at the source a second
time. The bound on memory is the Job's promise; the bound on time is generous, because a busy
machine may take several times as long as an idle one. Run it on its own: `python -m benchmarks
preheat_small_files`.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Result, at_most, folder_in_memory
from benchmarks.preheat_processes import DIRECTORY, preheat

FILES, FILE_BYTES, PER_FOLDER = 100_000, 1024, 1000
MEMORY_MIB, SECONDS = 256, 600


def figures() -> Iterator[Result]:
    with folder_in_memory() as folder:
        source, share = Path(folder) / "source", Path(folder) / "share"
        _write_files(source)
        share.mkdir()
        began = time.monotonic()
        peak, output = preheat(share, {"PATH": os.environ["PATH"]}, kind="local", root=str(source))
        seconds = time.monotonic() - began
        if f"{FILES} files" not in output or not (share / DIRECTORY / "READY").is_file():
            raise SystemExit(output)
    yield at_most(f"memory for {FILES} files of {FILE_BYTES} bytes", peak, MEMORY_MIB, " MiB")
    yield at_most("time of the same", seconds, SECONDS, " s")


def _write_files(folder: Path) -> None:
    noise = random.Random(1)  # noqa: S311 - noise for files, nothing secret
    for number in range(FILES):
        path = folder / f"part-{number // PER_FOLDER:03}" / f"file-{number:06}.json"
        if not number % PER_FOLDER:
            path.parent.mkdir(parents=True)
        path.write_bytes(noise.randbytes(FILE_BYTES))
