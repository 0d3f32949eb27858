"""Measures whether the time of a denial reveals how much of a key was right.

Keys that are wrong in the first and in the last character of their secret are refused in random order on one connection;
Welch's t between the two must stay within what chance gives. Needs nginx on PATH.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.ending import ended
from benchmarks.gateway import gateway
from components.gateway.keys import SECRET_DIGITS
from tests.ports import free_port

SAMPLES = 200_000
MOST_T = 4.5
# nginx closes a connection after 1,000 requests.
_REQUESTS_A_CONNECTION = 900


def refusal_times(folder: Path, samples: int = SAMPLES) -> float:
    """Welch's t between refusals of keys that differ in their secret's first and in its last character."""
    with ExitStack() as stack:
        proxy = gateway(stack, folder, free_port(), 2)
        good = proxy.key("c0")
        request = bytearray(f"GET /llama/v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {good}\r\n\r\n".encode())
        first = request.index(good.rpartition("_")[0].rpartition("_")[2].encode())
        places = (first, first + SECRET_DIGITS - 1)
        right = [request[place] for place in places]
        wrong = [ord("A") if each != ord("A") else ord("B") for each in right]
        times: tuple[list[int], list[int]] = ([], [])
        chance = random.Random(7)  # noqa: S311 - an order that a repetition keeps
        connection = _connect(proxy.port)
        for number in range(samples):
            which = chance.getrandbits(1)
            # The same buffer and the same writes for both: two buffers lie differently in memory, and that alone takes other times.
            request[places[0]], request[places[1]] = (wrong[0], right[1]) if which == 0 else (right[0], wrong[1])
            began = time.perf_counter_ns()
            connection.sendall(request)
            answer = connection.recv(4096)
            took = time.perf_counter_ns() - began
            times[which].append(took)
            if not answer.startswith(b"HTTP/1.1 401"):
                raise RuntimeError(f"a wrong key was answered with {answer[:60]!r}")
            if number % _REQUESTS_A_CONNECTION == _REQUESTS_A_CONNECTION - 1:
                connection.close()
                connection = _connect(proxy.port)
        connection.close()
    return _welch(_calm(times[0]), _calm(times[1]))


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _calm(times: list[int]) -> list[int]:
    """Without the slowest tenth: other processes' turns, which say nothing about a comparison."""
    return sorted(times)[: len(times) * 9 // 10]


def _welch(one: list[int], other: list[int]) -> float:
    spread = statistics.variance(one) / len(one) + statistics.variance(other) / len(other)
    return (statistics.fmean(one) - statistics.fmean(other)) / math.sqrt(spread)


def main() -> int:
    """Prints the figure; 1 when time tells, 0 otherwise, and also when nginx is missing."""
    if shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        print("gateway refusals: skipped, needs nginx on PATH (apt-get install nginx-light)")
        return 0
    with tempfile.TemporaryDirectory() as name:
        t = refusal_times(Path(name))
    met = abs(t) < MOST_T
    print(
        f"{'ok    ' if met else 'MISSED'} gateway refusals of nearly right and quite wrong keys: t {t:+.2f} over {SAMPLES} (within {MOST_T})"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.gateway_refusals"))
