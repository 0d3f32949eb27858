"""Measures a preheat of 100,000 files of 1 KiB without checksums, from one directory to another: memory and time.

Both directories are in memory. Each file is copied, read back, and read at the source a second time. The bound on memory
is the Job's promise; the bound on time is generous, because a busy machine may take several times as long as an idle one.
Run it on its own: `python -m benchmarks.preheat_small_files [count]`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.ending import ended
from benchmarks.memory import watch

FILES, FILE_BYTES, PER_FOLDER = 100_000, 1024, 1000
MEMORY_MIB, SECONDS = 256, 600
_PAYLOAD_HOME = Path(__file__).parents[1] / "components" / "preheat"


def main() -> int:
    """Print the figures with their bounds; 1 if one is missed."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a fresh directory is made inside
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        base = Path(folder)
        _write_source(base / "source", count)
        (base / "share").mkdir()
        peak, seconds, output = _preheat(base)
        ready = base / "share" / "m" / "0123456789-r0" / "READY"
        if f"{count} files" not in output or not ready.is_file():
            raise SystemExit(output)
    results = (("memory", f"{peak:.0f} MiB", MEMORY_MIB, peak), ("time", f"{seconds:.0f} s", SECONDS, seconds))
    for name, value, bound, figure in results:
        print(f"preheat: {name} for {count} files of {FILE_BYTES} bytes: {value} (<= {bound}) {'ok' if figure <= bound else 'MISSED'}")
    return 0 if all(figure <= bound for *_, bound, figure in results) else 1


def _write_source(folder: Path, count: int) -> None:
    noise = random.Random(1)  # noqa: S311 - noise for files, nothing secret
    for number in range(count):
        path = folder / f"part-{number // PER_FOLDER:03}" / f"file-{number:06}.json"
        if not number % PER_FOLDER:
            path.parent.mkdir(parents=True)
        path.write_bytes(noise.randbytes(FILE_BYTES))


def _preheat(base: Path) -> tuple[float, float, str]:
    """Peak MiB of the program and its rclones, seconds, and what the program printed."""
    request = {"kind": "local", "root": str(base / "source"), "target": str(base / "share"), "directory": "m/0123456789-r0", "job": "bench"}
    started, peak = time.monotonic(), [0.0]
    with subprocess.Popen(
        [sys.executable, "-m", "payload"],
        cwd=_PAYLOAD_HOME,
        env={"PATH": os.environ["PATH"], "PREHEAT_REQUEST": json.dumps(request), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        watcher = threading.Thread(target=watch, args=(process, peak))
        watcher.start()
        try:
            output, _ = process.communicate()
        finally:
            process.kill()
            watcher.join()
    return peak[0], time.monotonic() - started, output


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.preheat_small_files"))
