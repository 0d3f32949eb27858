"""Measures whether the time of a denial reveals how much of a key was right.

Keys that are wrong in the first and in the last character of their secret are denied in random
order on one connection; Welch's t between the two must stay within the range of chance. Needs nginx
on PATH.
"""

import math
import os
import random
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.gateway import gateway
from benchmarks.measuring import Result, at_most, unbounded
from inferplan.components.gateway.keys import SECRET_DIGITS
from tests.ports import free_port

SAMPLES = 200_000
MOST_T = 4.5
# nginx closes a connection after 1,000 requests.
_REQUESTS_A_CONNECTION = 900


def denial_times(folder: Path, samples: int = SAMPLES) -> tuple[list[int], list[int]]:
    """Nanoseconds of denials of keys that differ in their secret's first, and in its last
    character.
    """
    with ExitStack() as stack:
        proxy = gateway(stack, folder, free_port(), 2)
        good = proxy.key("c0")
        request = bytearray(
            f"GET /llama/v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {good}\r\n\r\n".encode()
        )
        first = request.index(good.rpartition("_")[0].rpartition("_")[2].encode())
        last = first + SECRET_DIGITS - 1
        right = request[first], request[last]
        wrong = [ord("A") if each != ord("A") else ord("B") for each in right]
        times: tuple[list[int], list[int]] = ([], [])
        chance = random.Random(7)  # noqa: S311 - an order that a repetition keeps
        for done in range(0, samples, _REQUESTS_A_CONNECTION):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(min(_REQUESTS_A_CONNECTION, samples - done)):
                which = chance.getrandbits(1)
                # The same buffer and the same writes for both: two buffers differ in their memory,
                # and that alone takes other times.
                request[first], request[last] = (
                    (wrong[0], right[1]) if which == 0 else (right[0], wrong[1])
                )
                began = time.perf_counter_ns()
                connection.sendall(request)
                answer = connection.recv(4096)
                times[which].append(time.perf_counter_ns() - began)
                if not answer.startswith(b"HTTP/1.1 401"):
                    raise RuntimeError(f"a wrong key was answered with {answer[:60]!r}")
    return times


def _welch(one: list[int], other: list[int]) -> float:
    """Welch's t without the slowest tenth, in which other processes ran."""
    one, other = (sorted(times)[: len(times) * 9 // 10] for times in (one, other))
    spread = statistics.variance(one) / len(one) + statistics.variance(other) / len(other)
    return (statistics.fmean(one) - statistics.fmean(other)) / math.sqrt(spread)


def figures() -> Iterator[Result]:
    if shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        yield unbounded("denials", "skipped, needs nginx on PATH (apt-get install nginx-light)")
        return
    with tempfile.TemporaryDirectory() as name:
        t = _welch(*denial_times(Path(name)))
    yield at_most(
        f"t between denials of nearly right and wrong keys over {SAMPLES} requests", abs(t), MOST_T
    )
