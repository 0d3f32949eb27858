"""Compares a verified preheat with its parts: rclone alone, and hashing alone.

Every figure is a ratio of two alternating measurements of one run, so that a slow machine cannot
fail it. The files are in memory; the S3 server is moto in a separate process. Shards are larger
than
rclone's --multi-thread-cutoff (250 MB), like those of real models. Moto copies a whole object for
each range, and rclone requests sixteen ranges at once by default: so there is also a ratio to
rclone with one stream per file, and one of processor time, which does not depend on the server.
Those two have no bound: with md5 alone, the preheat hashes every byte twice and rclone once.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    Result,
    at_least,
    at_most,
    cost,
    folder_in_memory,
    median_ratio,
    timed,
    unbounded,
)
from benchmarks.preheat_processes import (
    BUCKET,
    DIRECTORY,
    environment,
    noise,
    payload,
    preheat,
    rclone_alone,
    s3_server,
    upload,
)
from inferplan.components.preheat.payload.manifest import Entry, Manifest, check

SHARDS, SHARD_BYTES, ROUNDS = 4, 512 << 20, 3
COPY_AT_LEAST, HASH_AT_LEAST, RECHECK_AT_MOST, MEMORY_AT_MOST, REREAD_AT_MOST = (
    0.9,
    0.8,
    4,
    2.5,
    0.02,
)
_KILL_AT = SHARDS * SHARD_BYTES * 2 // 5
_REQUEST: dict[str, Any] = {"kind": "remote", "root": f"source:{BUCKET}/m", "lease_seconds": 3.0}


def figures() -> Iterator[Result]:
    """The figures of hashing and of copying; none without rclone."""
    if shutil.which("rclone") is None:
        yield unbounded("preheat", "skipped, there is no rclone on PATH (apt-get install rclone)")
        return
    with folder_in_memory() as folder:
        yield from _hashing(Path(folder))
        yield from _copying(Path(folder))


def _hashing(base: Path) -> Iterator[Result]:
    with _cache(base, (SHARD_BYTES,) * SHARDS) as (directory, manifest):
        plain, ours = [], []
        for _ in range(ROUNDS):
            plain.append(timed(lambda: _plain_sha256(directory)))
            ours.append(timed(lambda: check(directory, manifest, every_byte=True)))
    yield unbounded("verifying", _rate(ours))
    yield at_least(
        "verifying relative to plain sha256 on all cores", median_ratio(plain, ours), HASH_AT_LEAST
    )
    with _cache(base, (1000,) * 100) as (directory, manifest):
        recheck = min(timed(lambda: check(directory, manifest, every_byte=False)) for _ in range(9))
        plain = [
            min(timed(lambda: [path.stat() for path in directory.iterdir()]) for _ in range(9))
        ]
    yield at_most(
        "checking an unchanged cache of 100 files, relative to their sizes and times",
        recheck / plain[0],
        RECHECK_AT_MOST,
    )


def _copying(base: Path) -> Iterator[Result]:
    with s3_server() as endpoint:
        client = upload(endpoint, shards=SHARDS, size=SHARD_BYTES)
        env = environment(endpoint)
        yield from _compared(base, env, "the store's md5")
        yield _resumed(base / "killed", env)
        sums = "".join(f"{noise(n, SHARD_BYTES)[1]}  shard-{n}.dat\n" for n in range(SHARDS))
        client.put_object(Bucket=BUCKET, Key="m/SHA256SUMS", Body=sums.encode())
        yield from _compared(base, env, "a published sha256")


def _compared(base: Path, env: Mapping[str, str], evidence: str) -> Iterator[Result]:
    runs: dict[str, list[tuple[float, float]]] = {"alone": [], "one stream": [], "whole": []}
    peaks, peaks_alone, moved = [], [], -1
    for number in range(ROUNDS):
        for name, flags in (("alone", ()), ("one stream", ("--multi-thread-streams", "0"))):
            runs[name].append(
                cost(
                    lambda flags=flags: peaks_alone.append(rclone_alone(base / "alone", env, flags))
                )
            )
            shutil.rmtree(base / "alone")
        share = base / f"share-{number}"
        share.mkdir()
        runs["whole"].append(
            cost(lambda share=share: peaks.append(preheat(share, env, **_REQUEST)[0]))
        )
        preheat(share, env, **_REQUEST)
        moved = _moved(share)
        shutil.rmtree(share)
    (alone, busy_alone), (one_stream, _), (whole, busy) = (
        tuple(zip(*each, strict=True)) for each in runs.values()
    )
    name = f"copying and verifying by {evidence}"
    yield unbounded(name, _rate(whole))
    yield at_least(f"{name} relative to rclone alone", median_ratio(alone, whole), COPY_AT_LEAST)
    yield unbounded(
        f"{name} relative to rclone with one stream a file",
        f"{median_ratio(one_stream, whole):.2f}",
    )
    yield unbounded(
        "processor time relative to rclone alone, without the server",
        f"{median_ratio(busy, busy_alone):.2f}",
    )
    yield at_most(
        "bytes that a second run moves, relative to the model", moved / SHARDS / SHARD_BYTES, 0
    )
    yield at_most(
        "memory of the payload and its rclones relative to rclone alone",
        max(peaks) / max(peaks_alone),
        MEMORY_AT_MOST,
    )


def _resumed(share: Path, env: Mapping[str, str]) -> Result:
    """The part of each file that a run reads again after the previous one got kill -9 in the
    middle.
    """
    share.mkdir()
    with payload(share, env, **_REQUEST) as process:
        while process.poll() is None and _staged(share) < _KILL_AT:
            time.sleep(0.002)
        ended = process.poll() is not None
    staged, published = _staged(share), (share / DIRECTORY).exists()
    if ended or published:
        raise SystemExit(
            f"the run that should be killed {'published' if published else 'ended'} with"
            f" {staged >> 20} MiB staged"
        )
    preheat(share, env, **_REQUEST)
    again = (_moved(share) - (SHARDS * SHARD_BYTES - staged)) / SHARDS / SHARD_BYTES
    shutil.rmtree(share)
    return at_most(
        f"share of each file read again after kill -9 at {staged >> 20} MiB",
        max(0.0, again),
        REREAD_AT_MOST,
    )


def _rate(seconds: list[float] | tuple[float, ...]) -> str:
    return f"{SHARDS * SHARD_BYTES / statistics.median(seconds) / 2**20:.0f} MiB/s"


def _staged(share: Path) -> int:
    """Bytes that are written of large files, in the staging directory of any generation of the
    lock.
    """
    total = 0
    for path in share.glob(".inferplan/staging/*/*/files/*.dat"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_blocks * 512
    return total


def _moved(share: Path) -> int:
    return json.loads((share / ".inferplan" / "status" / "bench.json").read_text())["moved"]


@contextlib.contextmanager
def _cache(base: Path, sizes: tuple[int, ...]) -> Iterator[tuple[Path, Manifest]]:
    """A directory of files of `sizes` with its manifest, removed afterwards."""
    directory = base / "cache"
    directory.mkdir()
    entries = tuple(
        _file(directory / f"{number}.safetensors", size, number)
        for number, size in enumerate(sizes)
    )
    yield (
        directory,
        Manifest(content="m.0123456789", source="bench", revision=None, entries=entries),
    )
    shutil.rmtree(directory)


def _file(path: Path, size: int, seed: int) -> Entry:
    block = random.Random(seed).randbytes(min(size, 1 << 20))  # noqa: S311 - noise, nothing secret
    with path.open("wb") as stream:
        for _ in range(size // len(block)):
            stream.write(block)
    status = path.stat()
    return Entry(
        path=path.name,
        size=status.st_size,
        sha256=_sha256(path),
        mtime_ns=status.st_mtime_ns,
        evidence="none",
        origin="bench",
    )


def _plain_sha256(directory: Path) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_sha256, directory.iterdir()))


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
