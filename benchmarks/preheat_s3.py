"""The S3 server of the preheat's benchmark, on the loopback, and its model."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3

from tests.ports import free_port

BUCKET = "acme-weights"
_KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-bench"}


def noise(seed: int, size: int) -> tuple[bytes, str]:
    """The bytes of a file of whole MiB, and their sha256; the same for the same seed."""
    block = random.Random(seed).randbytes(1 << 20)  # noqa: S311 - noise, nothing secret
    data = block * (size >> 20)
    return data, hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Run moto in a separate process; yields its URL."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _answers(port):
            if server.poll() is not None:
                raise RuntimeError(f"moto ended with {server.returncode} before it served")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def upload(endpoint: str, *, shards: int, size: int) -> Any:
    """Upload a model of `shards` large files and some small ones to a new bucket, each in one part; returns the client."""
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench-bench"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=BUCKET)
    for number in range(shards):
        client.put_object(Bucket=BUCKET, Key=f"m/shard-{number}.dat", Body=noise(number, size)[0])
    for number in range(8):
        client.put_object(Bucket=BUCKET, Key=f"m/config-{number}.json", Body=b"{}" * 500)
    return client


def environment(endpoint: str) -> dict[str, str]:
    """The environment of rclone for the server, without the variables of this shell."""
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENV_AUTH": "true",
        "FORCE_PATH_STYLE": "true",
        "ENDPOINT": endpoint,
        "REGION": "us-east-1",
    }
    # A proxy or a CA bundle of this shell would be used for the loopback too.
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(Path.home()),
        **_KEYS,
        **{f"RCLONE_CONFIG_SOURCE_{key}": value for key, value in remote.items()},
    }
