"""The processes that the benchmarks of the preheat run: an S3 server on the loopback, rclone alone,
and the payload.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3

from benchmarks.measuring import ROOT, serving
from tests.ports import free_port

BUCKET = "acme-weights"
DIRECTORY = "m/0123456789-r0"
_KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-bench"}


def noise(seed: int, size: int) -> tuple[bytes, str]:
    """The bytes of a file of whole MiB, and their sha256; the same for the same seed."""
    data = random.Random(seed).randbytes(1 << 20) * (size >> 20)  # noqa: S311 - noise, nothing secret
    return data, hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Run moto in a separate process; yields its URL."""
    port = free_port()
    with serving(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        port,
        log=subprocess.DEVNULL,
    ):
        yield f"http://127.0.0.1:{port}"


def upload(endpoint: str, *, shards: int, size: int) -> Any:
    """Upload a model of `shards` large files and some small ones to a new bucket, each in one part;
    returns the client.
    """
    key, secret = _KEYS.values()
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )
    client.create_bucket(Bucket=BUCKET)
    for number in range(shards):
        client.put_object(Bucket=BUCKET, Key=f"m/shard-{number}.dat", Body=noise(number, size)[0])
    for number in range(8):
        client.put_object(Bucket=BUCKET, Key=f"m/config-{number}.json", Body=b"{}" * 500)
    return client


def environment(endpoint: str) -> dict[str, str]:
    """The environment of rclone for the server. A proxy or a CA bundle of this shell would be used
    for the loopback too.
    """
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENV_AUTH": "true",
        "FORCE_PATH_STYLE": "true",
        "ENDPOINT": endpoint,
        "REGION": "us-east-1",
    }
    variables = {f"RCLONE_CONFIG_SOURCE_{key}": value for key, value in remote.items()}
    return {"PATH": os.environ["PATH"], "HOME": str(Path.home()), **_KEYS, **variables}


def rclone_alone(into: Path, env: Mapping[str, str], flags: Sequence[str] = ()) -> float:
    """Copy the model with rclone's defaults (four transfers, four streams of a large file); returns
    the most MiB that it held.
    """
    command = ["rclone", "copy", "--config", "", *flags, f"source:{BUCKET}/m", str(into)]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        return _finished(process)[0]


def rclone(*arguments: str | Path) -> None:
    """Run rclone on directories."""
    command = ["rclone", "--config", "", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def s5cmd(endpoint: str, into: Path) -> None:
    """Copy the model with s5cmd's defaults."""
    command = ["s5cmd", "--endpoint-url", endpoint, "cp", f"s3://{BUCKET}/m/*", f"{into}/"]
    variables = {**environment(endpoint), "AWS_REGION": "us-east-1"}
    subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def payload(share: Path, env: Mapping[str, str], **request: Any) -> Iterator[subprocess.Popen[str]]:
    """A run of the payload into `share`; the end of the block kills it and its rclones by kill -9."""
    request = {"target": str(share), "directory": DIRECTORY, "job": "bench", **request}
    process = subprocess.Popen(
        [sys.executable, "-m", "payload"],
        cwd=ROOT / "inferplan" / "components" / "preheat",
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


def preheat(share: Path, env: Mapping[str, str], **request: Any) -> tuple[float, str]:
    """Run the payload to its end; returns the most MiB that it and its rclones held together, and
    its output.
    """
    with payload(share, env, **request) as process:
        return _finished(process)


def _finished(process: subprocess.Popen[str]) -> tuple[float, str]:
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process, peak))
    watcher.start()
    output, _ = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(output)
    return peak[0], output


def _watch(process: subprocess.Popen[str], peak: list[float]) -> None:
    while process.poll() is None:
        peak[0] = max(
            peak[0],
            sum(_anonymous_mebibytes(pid) for pid in (process.pid, *_children(process.pid))),
        )
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    children = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += [int(child) for child in path.read_text().split()]
    return children


def _anonymous_mebibytes(pid: int) -> float:
    """Memory that nothing can evict: the text of four rclones is one file in the page cache."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024
    return 0.0
