"""Compares a verified preheat of 2 GiB in four files of S3 with rclone and s5cmd, in one run.

The bucket publishes the sha256 of each file. The preheat checks them while it copies. The others
copy, and `sha256sum --check` reads the copy. All directories are in memory. Compared is processor
time without that of the server, and the preheat's memory has a bound.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.bucket import bucket
from benchmarks.measuring import Result, at_most, folder_in_memory, median_ratio, unbounded
from benchmarks.preheat_many_files import compared, times_of
from benchmarks.preheat_processes import BUCKET, environment, noise, preheat, rclone_alone, s5cmd

SHARDS, SHARD_BYTES, ROUNDS, MEMORY_MIB = 4, 512 << 20, 3, 75.0
_SUMS = "SHA256SUMS"


def figures() -> Iterator[Result]:
    if absent := [name for name in ("rclone", "s5cmd") if shutil.which(name) is None]:
        yield unbounded("large files", f"skipped, there is no {' and no '.join(absent)} on PATH")
        return
    with folder_in_memory() as folder:
        yield from _compared(Path(folder))


def _compared(folder: Path) -> Iterator[Result]:
    share, copy, copied = (folder / name for name in ("share", "copy", "copied"))
    data, digest = noise(1, SHARD_BYTES)
    names = [f"shard-{number}.dat" for number in range(SHARDS)]
    sums = "".join(f"{digest}  {name}\n" for name in names).encode()
    (folder / "store").mkdir()
    with bucket(folder / "store", {**dict.fromkeys(names, data), _SUMS: sums}) as url:
        env, peaks = environment(url), []

        def ours() -> None:
            share.mkdir()
            peak, _ = preheat(share, env, kind="remote", root=f"source:{BUCKET}/m")
            peaks.append(peak)

        ways: dict[str, Callable[[], object]] = {
            "preheat": ours,
            "rclone copy": partial(rclone_alone, copy, env),
            "checking that": partial(_check, copy),
            "s5cmd cp": partial(s5cmd, url, copied),
            "checking this": partial(_check, copied),
        }
        times = times_of(ways, ROUNDS, (share, copy, copied))
    name = f"preheat of {SHARDS * SHARD_BYTES >> 30} GiB of S3"
    checked = {}
    for way, check in (("rclone copy", "checking that"), ("s5cmd cp", "checking this")):
        alone = median_ratio(times["preheat"], times[way])
        yield unbounded(f"{name}, verified, relative to {way} without a check", f"{alone:.2f}")
        both = zip(times[way], times[check], strict=True)
        checked[f"{way} and sha256sum"] = [sum(each) for each in both]
    yield from compared(name, {"preheat": times["preheat"], **checked})
    yield at_most(f"{name}, memory", max(peaks), MEMORY_MIB, " MiB")


def _check(folder: Path) -> None:
    command = ["sha256sum", "--check", "--quiet", _SUMS]
    subprocess.run(command, cwd=folder, check=True)
