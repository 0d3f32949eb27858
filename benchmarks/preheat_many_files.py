"""Compares a verified preheat of 20,000 files of 8 KiB from a directory and from S3 with rclone and
s5cmd, in one run.

From a directory, the preheat reads each file at the source, at the copy, and at the source again;
rclone's copy reads it once, and its check both sides. From S3 it reads each file once, and the copy
again for the md5 that the store publishes. All directories are in memory. Compared is processor
time, which a busy machine changes little, without that of the server.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.bucket import bucket
from benchmarks.measuring import Result, at_most, cost, folder_in_memory, median_ratio, unbounded
from benchmarks.preheat_processes import (
    BUCKET,
    environment,
    preheat,
    rclone,
    rclone_alone,
    s5cmd,
)

FILES, HALF_BYTES, PER_FOLDER, ROUNDS = 20_000, 4096, 1000, 3
MOST_OF_PEER, MEMORY_MIB = 1.3, 256.0


def figures() -> Iterator[Result]:
    if shutil.which("rclone") is None:
        yield unbounded(
            "many files", "skipped, there is no rclone on PATH (apt-get install rclone)"
        )
        return
    with folder_in_memory() as folder:
        yield from _of_directory(Path(folder))
    with folder_in_memory() as folder:
        yield from _of_bucket(Path(folder))


def _of_directory(folder: Path) -> Iterator[Result]:
    source, share, copy = (folder / name for name in ("source", "share", "copy"))
    peaks: list[float] = []
    for name, data in _files():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    ways: dict[str, Callable[[], object]] = {
        "preheat": partial(_preheat, share, peaks, kind="local", root=str(source)),
        "rclone copy": partial(rclone, "copy", source, copy),
        "check": partial(rclone, "check", "--download", source, copy),
    }
    times = times_of(ways, ROUNDS, (share, copy))
    checked = times.pop("check")
    times["rclone copy and check"] = [
        sum(each) for each in zip(times["rclone copy"], checked, strict=True)
    ]
    name = f"preheat of {FILES} files of a directory"
    yield from compared(name, times)
    yield at_most(f"{name}, memory", max(peaks), MEMORY_MIB, " MiB")


def _of_bucket(folder: Path) -> Iterator[Result]:
    share, copy, copied = (folder / name for name in ("share", "copy", "copied"))
    peaks: list[float] = []
    (folder / "store").mkdir()
    # In one folder, so that one list answers every client.
    with bucket(folder / "store", {name.replace("/", "-"): data for name, data in _files()}) as url:
        env = environment(url)
        ways: dict[str, Callable[[], object]] = {
            "preheat": partial(
                _preheat, share, peaks, env, kind="remote", root=f"source:{BUCKET}/m"
            ),
            "rclone copy": partial(rclone_alone, copy, env),
        }
        if shutil.which("s5cmd"):
            ways["s5cmd cp"] = partial(s5cmd, url, copied)
        times = times_of(ways, ROUNDS, (share, copy, copied))
    name = f"preheat of {FILES} files of S3"
    yield from compared(name, times)
    yield at_most(f"{name}, memory", max(peaks), MEMORY_MIB, " MiB")


def times_of(
    ways: dict[str, Callable[[], object]], rounds: int, folders: tuple[Path, ...]
) -> dict[str, list[float]]:
    """Processor seconds of each of the `ways`, round by round; `folders` are empty before each round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for path in folders:
            shutil.rmtree(path, ignore_errors=True)
        for name, way in ways.items():
            times[name].append(cost(way)[1])
    return times


def compared(name: str, times: dict[str, list[float]]) -> Iterator[Result]:
    """The preheat, which is called `name`, next to each other method."""
    ours = times.pop("preheat")
    yield unbounded(name, f"{min(ours):.1f} s of processor time")
    for way, theirs in times.items():
        ratio = median_ratio(ours, theirs)
        yield at_most(f"{name}, verified, relative to {way}", ratio, MOST_OF_PEER)


def _preheat(
    share: Path, peaks: list[float], env: dict[str, str] | None = None, **request: str
) -> None:
    share.mkdir()
    peak, output = preheat(share, env or {"PATH": os.environ["PATH"]}, **request)
    if f"{FILES} files" not in output:
        raise SystemExit(output)
    peaks.append(peak)


def _files() -> Iterator[tuple[str, bytes]]:
    noise = random.Random(1)  # noqa: S311 - noise for files, nothing secret
    for number in range(FILES):
        # Text, because a few of so many random files look like pickles.
        data = noise.randbytes(HALF_BYTES).hex().encode()
        yield f"part-{number // PER_FOLDER:03}/file-{number:06}.txt", data
