"""The memory of a gateway pod: how many bodies and connections it holds at most, what each consumer
may take of them, and the limit that follows.

Sizes were measured with nginx 1.22 and 1.31 (2026-11): a connection takes 22 KB and its socket 5 KB
of the kernel, its header buffers what a client sends, a call to a server 34 KB, and a body its size
while it arrives and twice as much from then on until the request ends, because nginx (or njs, whose
result nginx uses) joins two buffers. Without calls, a pod takes 26 MB with 1,000 consumers of 200 models.
"""

from dataclasses import dataclass

WORKERS = 2
WORKER_CONNECTIONS = 6144
HEADER_BUFFERS, HEADER_BUFFER_KB = 2, 8
LARGEST_BODY_BYTES = 64 * 2**20
"""Maximum size of a body at /v1, which nginx keeps in memory."""
CHUNKED = "chunked"
_COPIES = 2
_IDLE_BYTES, _CONNECTION_BYTES, _CALL_BYTES, _SOCKET_BYTES = 26 * 10**6, 22_000, 34_000, 5_000
_FEWEST_SHARES = 4
"""One consumer takes at most this part of what a pod holds, if there are others."""
_MOST_OF_THE_LIMIT = 0.8
_STEP_MIB = 128


@dataclass(frozen=True)
class Bodies:
    """Bodies at /v1 of similar size: the pattern of their Content-Length, the largest in bytes, and
    how many a pod holds at a time.
    """

    pattern: str
    largest: int
    slots: int


BODIES = {
    "small": Bodies("[0-9]{5}", 99_999, 256),
    "medium": Bodies("[0-9]{6}", 999_999, 64),
    "large": Bodies("1[0-9]{6}", 1_999_999, 48),
    "larger": Bodies("[2-9][0-9]{6}", 9_999_999, 8),
    "largest": Bodies("[0-9]{8,}", LARGEST_BODY_BYTES, 2),
    CHUNKED: Bodies("[^0-9].*", 9_999_999, 12),
}
"""Bodies of fewer than 10 KB are limited by the number of connections. A body without a stated
length may have any size up to the largest of its kind.
"""
_TINY_BYTES = 9_999
CONNECTIONS = WORKERS * WORKER_CONNECTIONS
CALLS = 4096
"""Calls at a time that the consumers of a pod share. They use two connections each; the rest are
idle ones, of clients and to servers.
"""


def share(slots: int, consumers: int) -> int:
    """The number of `slots` that one of several consumers may take."""
    return slots if consumers < 2 else max(1, slots // _FEWEST_SHARES)


def worst_bytes() -> int:
    """The memory of a pod when clients send the worst that it accepts, at the same time."""
    headers = HEADER_BUFFERS * HEADER_BUFFER_KB * 1024
    # A call uses a second connection, so half of them carry bodies.
    calls = CONNECTIONS // 2 * (_CALL_BYTES + _COPIES * _TINY_BYTES)
    bodies = sum(_COPIES * each.largest * each.slots for each in BODIES.values())
    connections = CONNECTIONS * _SOCKET_BYTES + max(
        CONNECTIONS * (_CONNECTION_BYTES + headers), calls
    )
    return _IDLE_BYTES + connections + bodies


def limit_mib() -> int:
    """The memory limit of a pod, of which the worst case takes at most 80%."""
    steps = -(-worst_bytes() / _MOST_OF_THE_LIMIT / 2**20 // _STEP_MIB)
    return int(steps) * _STEP_MIB
