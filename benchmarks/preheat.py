"""How close a verified preheat comes to what its parts can do: to rclone alone, and to hashing alone.

Everything is a ratio between two measurements of one run, taken in turns, so that a slow machine cannot fail it. Files lie
in memory, since a disk would only measure itself; the S3 server is moto in a process of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3

from components.preheat.payload.manifest import Entry, Manifest, check

SHARDS, SHARD_BYTES, ROUNDS = 8, 192 << 20, 3
COPY_AT_LEAST, HASH_AT_LEAST, RECHECK_MILLISECONDS, MEMORY_MIB = 0.9, 0.8, 100, 256
_BUCKET = "acme-weights"
_PAYLOAD_HOME = Path(__file__).parents[1] / "components" / "preheat"
_KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-bench"}


def main() -> int:
    """Print the figures and how they compare with their bounds; 1 when one is missed."""
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
    manifest = Manifest(source="bench", revision=None, entries=tuple(entries))
    plain, ours = [], []
    for _ in range(ROUNDS):
        plain.append(_timed(lambda: _plain_sha256(directory)))
        ours.append(_timed(lambda: check(directory, manifest, every_byte=True)))
    ratio = statistics.median(a / b for a, b in zip(plain, ours, strict=True))
    rate = SHARDS * SHARD_BYTES / statistics.median(ours) / 2**20
    yield "verifying / plain sha256 on all cores", f"{ratio:.2f} at {rate:.0f} MiB/s", f">= {HASH_AT_LEAST}", ratio >= HASH_AT_LEAST
    shutil.rmtree(directory)
    directory.mkdir()
    small = Manifest(source="bench", revision=None, entries=tuple(_file(directory / f"{n}.json", 1000, n) for n in range(100)))
    recheck = 1000 * min(_timed(lambda: check(directory, small, every_byte=False)) for _ in range(9))
    yield (
        "looking at an unchanged cache of 100 files",
        f"{recheck:.1f} ms",
        f"<= {RECHECK_MILLISECONDS} ms",
        recheck <= RECHECK_MILLISECONDS,
    )
    shutil.rmtree(directory)


def _copying(base: Path) -> Iterator[Result]:
    with _s3() as endpoint:
        client = _upload(endpoint)
        env = _environment(endpoint)
        yield from _compared(base, env, "the store's md5")
        sums = "".join(f"{_noise(n, SHARD_BYTES)[1]}  shard-{n}.dat\n" for n in range(SHARDS))
        client.put_object(Bucket=_BUCKET, Key="m/SHA256SUMS", Body=sums.encode())
        yield from _compared(base, env, "a published sha256")


def _compared(base: Path, env: dict[str, str], evidence: str) -> Iterator[Result]:
    alone, whole, memory, moved = [], [], 0.0, -1
    for number in range(ROUNDS):
        alone.append(_timed(lambda: _rclone_alone(base / "alone", env)))
        shutil.rmtree(base / "alone")
        share = base / f"share-{number}"
        share.mkdir()
        started = time.monotonic()
        memory = max(memory, _preheat(share, env))
        whole.append(time.monotonic() - started)
        _preheat(share, env)
        moved = json.loads((share / ".inferplan" / "status" / "bench.json").read_text())["moved"]
        shutil.rmtree(share)
    ratio = statistics.median(a / b for a, b in zip(alone, whole, strict=True))
    rate = SHARDS * SHARD_BYTES / statistics.median(whole) / 2**20
    name = f"copying and verifying by {evidence} / rclone alone"
    yield name, f"{ratio:.2f} at {rate:.0f} MiB/s", f">= {COPY_AT_LEAST}", ratio >= COPY_AT_LEAST
    yield "bytes that a second run moves", str(moved), "0", moved == 0
    yield "memory of the payload and its rclones", f"{memory:.0f} MiB", f"<= {MEMORY_MIB} MiB", memory <= MEMORY_MIB


def _noise(seed: int, size: int) -> tuple[bytes, str]:
    block = random.Random(seed).randbytes(1 << 20)  # noqa: S311 - noise, nothing secret
    data = block * (size >> 20)
    return data, hashlib.sha256(data).hexdigest()


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


@contextlib.contextmanager
def _s3() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _upload(endpoint: str) -> Any:
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench-bench"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=_BUCKET)
    for number in range(SHARDS):
        client.put_object(Bucket=_BUCKET, Key=f"m/shard-{number}.dat", Body=_noise(number, SHARD_BYTES)[0])
    for number in range(8):
        client.put_object(Bucket=_BUCKET, Key=f"m/config-{number}.json", Body=b"{}" * 500)
    return client


def _environment(endpoint: str) -> dict[str, str]:
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENV_AUTH": "true",
        "FORCE_PATH_STYLE": "true",
        "ENDPOINT": endpoint,
        "REGION": "us-east-1",
    }
    # Nothing else of this shell: a proxy or a CA bundle meant for the internet would be asked on the loopback as well.
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(Path.home()),
        **_KEYS,
        **{f"RCLONE_CONFIG_SOURCE_{key}": value for key, value in remote.items()},
    }


def _rclone_alone(into: Path, env: dict[str, str]) -> None:
    command = ["rclone", "copy", "--config", "", f"source:{_BUCKET}/m", str(into)]  # its defaults: four transfers, checksums compared
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"rclone alone failed: {done.stderr[-800:]}")


def _preheat(share: Path, env: dict[str, str]) -> float:
    request = {"kind": "remote", "root": f"source:{_BUCKET}/m", "target": str(share), "directory": "m/0123456789-r0", "job": "bench"}
    process = subprocess.Popen(
        [sys.executable, "-m", "payload"],
        cwd=_PAYLOAD_HOME,
        env={**env, "PREHEAT_REQUEST": json.dumps(request), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process, peak))
    watcher.start()
    output, _ = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(output)
    return peak[0]


def _watch(process: subprocess.Popen[str], peak: list[float]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], sum(_anonymous_mib(pid) for pid in (process.pid, *_children(process.pid))))
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in path.read_text().split()]
    return found


def _anonymous_mib(pid: int) -> float:
    """Memory that nothing can evict: the text of four rclones is one file in the page cache."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
