"""Compares a verified preheat with its parts: rclone alone, and hashing alone.

Every figure is a ratio of two alternating measurements of one run, so that a slow machine cannot fail it. The files are in
memory, because a disk would only measure itself; the S3 server is moto in a separate process. Shards are larger than
rclone's --multi-thread-cutoff (250 MB), like those of real models. Moto copies a whole object for each range, and rclone requests
sixteen ranges at once by default: so there is also a ratio to rclone with one stream per file, and one of processor time, which
does not depend on the server. Those two have no bound: with md5 alone, the preheat hashes every byte twice and rclone once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.ending import ended
from benchmarks.memory import watch
from benchmarks.preheat_s3 import BUCKET, environment, noise, s3_server, upload
from components.preheat.payload.manifest import Entry, Manifest, check

SHARDS, SHARD_BYTES, ROUNDS = 4, 512 << 20, 3
COPY_AT_LEAST, HASH_AT_LEAST, RECHECK_MILLISECONDS, MEMORY_MIB, REREAD_MIB = 0.9, 0.8, 100, 256, 8
_KILL_AT = SHARDS * SHARD_BYTES * 2 // 5
_DIRECTORY = "m/0123456789-r0"
_ONE_STREAM = ("--multi-thread-streams", "0")
_PAYLOAD_HOME = Path(__file__).parents[1] / "components" / "preheat"


def main() -> int:
    """Print the figures with their bounds; 1 if one is missed."""
    if shutil.which("rclone") is None:
        print("preheat: skipped, there is no rclone on PATH (Debian: apt-get install rclone)")
        return 0
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a fresh directory is made inside
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        base = Path(folder)
        results = [*_hashing(base), *_copying(base)]
    for name, value, bound, good in results:
        print(f"preheat: {name}: {value} ({bound}) {'ok' if good else 'MISSED'}")
    return 0 if all(good for *_, good in results) else 1


Result = tuple[str, str, str, bool]


def _hashing(base: Path) -> Iterator[Result]:
    directory = base / "cache"
    directory.mkdir()
    entries = [_file(directory / f"{n}.safetensors", SHARD_BYTES, n) for n in range(SHARDS)]
    manifest = Manifest(content="m.0123456789", source="bench", revision=None, entries=tuple(entries))
    plain, ours = [], []
    for _ in range(ROUNDS):
        plain.append(_timed(lambda: _plain_sha256(directory)))
        ours.append(_timed(lambda: check(directory, manifest, every_byte=True)))
    ratio = statistics.median(a / b for a, b in zip(plain, ours, strict=True))
    rate = SHARDS * SHARD_BYTES / statistics.median(ours) / 2**20
    yield "verifying / plain sha256 on all cores", f"{ratio:.2f} at {rate:.0f} MiB/s", f">= {HASH_AT_LEAST}", ratio >= HASH_AT_LEAST
    shutil.rmtree(directory)
    directory.mkdir()
    small = Manifest(
        content="m.0123456789", source="bench", revision=None, entries=tuple(_file(directory / f"{n}.json", 1000, n) for n in range(100))
    )
    recheck = 1000 * min(_timed(lambda: check(directory, small, every_byte=False)) for _ in range(9))
    yield (
        "looking at an unchanged cache of 100 files",
        f"{recheck:.1f} ms",
        f"<= {RECHECK_MILLISECONDS} ms",
        recheck <= RECHECK_MILLISECONDS,
    )
    shutil.rmtree(directory)


def _copying(base: Path) -> Iterator[Result]:
    with s3_server() as endpoint:
        client = upload(endpoint, shards=SHARDS, size=SHARD_BYTES)
        env = environment(endpoint)
        yield from _compared(base, env, "the store's md5")
        yield _resumed(base / "killed", env)
        sums = "".join(f"{noise(n, SHARD_BYTES)[1]}  shard-{n}.dat\n" for n in range(SHARDS))
        client.put_object(Bucket=BUCKET, Key="m/SHA256SUMS", Body=sums.encode())
        yield from _compared(base, env, "a published sha256")


def _compared(base: Path, env: dict[str, str], evidence: str) -> Iterator[Result]:
    runs: dict[str, list[tuple[float, float]]] = {"alone": [], "one stream": [], "whole": []}
    memory, moved = 0.0, -1
    for number in range(ROUNDS):
        for name, flags in (("alone", ()), ("one stream", _ONE_STREAM)):
            runs[name].append(_cost(lambda flags=flags: _rclone_alone(base / "alone", env, flags)))
            shutil.rmtree(base / "alone")
        share = base / f"share-{number}"
        share.mkdir()
        peak = [0.0]
        runs["whole"].append(_cost(lambda share=share, peak=peak: peak.append(_preheat(share, env))))
        memory = max(memory, *peak)
        _preheat(share, env)
        moved = _moved(share)
        shutil.rmtree(share)
    seconds = {name: [each[0] for each in found] for name, found in runs.items()}
    ratio = statistics.median(a / b for a, b in zip(seconds["alone"], seconds["whole"], strict=True))
    plain = statistics.median(a / b for a, b in zip(seconds["one stream"], seconds["whole"], strict=True))
    busy = statistics.median(b[1] / a[1] for a, b in zip(runs["alone"], runs["whole"], strict=True))
    rate = SHARDS * SHARD_BYTES / statistics.median(seconds["whole"]) / 2**20
    name = f"copying and verifying by {evidence} / rclone alone"
    yield name, f"{ratio:.2f} at {rate:.0f} MiB/s", f">= {COPY_AT_LEAST}", ratio >= COPY_AT_LEAST
    yield f"{name} with one stream a file", f"{plain:.2f}", "no bound", True
    yield "processor time of the same, server left out", f"{busy:.2f} times rclone's", "no bound", True
    yield "bytes that a second run moves", str(moved), "0", moved == 0
    yield "memory of the payload and its rclones", f"{memory:.0f} MiB", f"<= {MEMORY_MIB} MiB", memory <= MEMORY_MIB


def _resumed(share: Path, env: dict[str, str]) -> Result:
    """The part of each file that a run reads again after the previous one got kill -9 in the middle."""
    share.mkdir()
    with _running(share, env) as process:
        while process.poll() is None and _staged(share) < _KILL_AT:
            time.sleep(0.002)
        ended = process.poll() is not None
    staged, published = _staged(share), (share / _DIRECTORY).exists()
    if ended or published:
        raise SystemExit(f"the run that should be killed {'published' if published else 'ended'} with {staged >> 20} MiB staged")
    _preheat(share, env)
    again = (_moved(share) - (SHARDS * SHARD_BYTES - staged)) / SHARDS / 2**20
    shutil.rmtree(share)
    name = f"re-read of each file after kill -9 at {staged >> 20} MiB"
    return name, f"{max(0.0, again):.2f} MiB", f"<= {REREAD_MIB} MiB", again <= REREAD_MIB and staged >= _KILL_AT


def _staged(share: Path) -> int:
    """Bytes that are written of large files, in the staging directory of any generation of the lock."""
    total = 0
    for path in share.glob(".inferplan/staging/*/*/files/*.dat"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_blocks * 512
    return total


def _moved(share: Path) -> int:
    return json.loads((share / ".inferplan" / "status" / "bench.json").read_text())["moved"]


def _file(path: Path, size: int, seed: int) -> Entry:
    block = random.Random(seed).randbytes(min(size, 1 << 20))  # noqa: S311 - noise, nothing secret
    with path.open("wb") as stream:
        for _ in range(size // len(block)):
            stream.write(block)
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    status = path.stat()
    return Entry(path=path.name, size=status.st_size, sha256=found, mtime_ns=status.st_mtime_ns, evidence="none", origin="bench")


def _plain_sha256(directory: Path) -> None:
    def one(path: Path) -> str:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, directory.iterdir()))


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and processor seconds of the processes that `work` started and awaited."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = _timed(work)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rclone_alone(into: Path, env: dict[str, str], flags: Sequence[str] = ()) -> None:
    # Its defaults: four transfers, four streams of a large file, checksums compared.
    command = ["rclone", "copy", "--config", "", *flags, f"source:{BUCKET}/m", str(into)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"rclone alone failed: {done.stderr[-800:]}")


@contextlib.contextmanager
def _running(share: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A run of the payload; the end of the block kills it and its rclones by kill -9."""
    request = {"kind": "remote", "root": f"source:{BUCKET}/m", "target": str(share), "directory": _DIRECTORY, "job": "bench"}
    request |= {"lease_seconds": 3.0}
    process = subprocess.Popen(
        [sys.executable, "-m", "payload"],
        cwd=_PAYLOAD_HOME,
        env={**env, "PREHEAT_REQUEST": json.dumps(request), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _preheat(share: Path, env: dict[str, str]) -> float:
    peak = [0.0]
    with _running(share, env) as process:
        watcher = threading.Thread(target=watch, args=(process, peak))
        watcher.start()
        output, _ = process.communicate()
        watcher.join()
    if process.returncode:
        raise SystemExit(output)
    return peak[0]


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.preheat"))
