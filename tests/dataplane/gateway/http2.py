"""An HTTP/2 client that sends whatever fields it is told to (RFC 9113, RFC 7541), sound or not, and
reads the statuses that come back.

No client library does: each refuses or repairs just what a test of a proxy has to send.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.patience import PATIENCE_SECONDS

Fields = Sequence[tuple[bytes, bytes]]
# Streams under way at once, below the 128 that nginx allows, and on one connection, below the 1,000
# after which it closes it.
_AT_ONCE, _ON_A_CONNECTION = 100, 900
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_STATIC_STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
REFUSED = 0
"""In the place of a status: the stream or the whole connection ended without an answer."""


@dataclass(frozen=True)
class Request:
    """Fields as they are sent, pseudo-fields among them, the body, and fields after it."""

    fields: Fields
    body: bytes = b""
    trailers: Fields = ()


def request(method: str, target: bytes, *others: tuple[str, str], body: bytes = b"") -> Request:
    """A request as sound clients send it, whatever `target` is."""
    pseudo = [
        (b":method", method.encode()),
        (b":scheme", b"http"),
        (b":authority", b"llm.test"),
        (b":path", target),
    ]
    return Request([*pseudo, *((name.encode(), value.encode()) for name, value in others)], body)


def ask(port: int, requests: Iterable[Request]) -> list[int]:
    """The status of each; one that ends its connection takes no other with it."""
    queue, statuses = list(requests), []
    while len(statuses) < len(queue):
        statuses += _connection(port, queue[len(statuses) : len(statuses) + _ON_A_CONNECTION])
    return statuses


def _connection(port: int, requests: Sequence[Request]) -> list[int]:
    """The statuses of the first of `requests`, as many as one connection bears; at least one."""
    statuses: list[int] = []
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        reader = _Reader(connection)
        settings = _frame(_SETTINGS, 0, 0, b"\x00\x04\x7f\xff\xff\xff") + _frame(
            _WINDOW, 0, 0, (2**30).to_bytes(4, "big")
        )
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
        for start in range(0, len(requests), _AT_ONCE):
            batch = requests[start : start + _AT_ONCE]
            answers = reader.answers(
                {2 * (start + number) + 1: each for number, each in enumerate(batch)}
            )
            if answers is None:
                # One of them broke the connection: each by itself tells which.
                return [*statuses, *(_alone(port, each) for each in batch)]
            statuses += answers
    return statuses


def _alone(port: int, one: Request) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
        return (_Reader(connection).answers({1: one}) or [REFUSED])[0]


class _Reader:
    """Sends streams on a connection and waits for the end of each."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.file = connection.makefile("rb")

    def answers(self, streams: dict[int, Request]) -> list[int] | None:
        """The statuses of `streams` in their order; None when the connection ended before they did."""
        found, open_ones = dict.fromkeys(streams, REFUSED), set(streams)
        try:
            self.connection.sendall(
                b"".join(_sent(number, each) for number, each in streams.items())
            )
            while open_ones:
                head = self.file.read(9)
                if len(head) < 9 or head[3] == _GOAWAY:
                    return None
                number, payload = (
                    int.from_bytes(head[5:9], "big"),
                    self.file.read(int.from_bytes(head[:3], "big")),
                )
                if head[3] == _HEADERS and number in open_ones:
                    found[number] = _status(payload)
                if head[3] == _RESET or (head[3] in (_HEADERS, _DATA) and head[4] & _END_STREAM):
                    open_ones.discard(number)
                if head[3] in (_SETTINGS, _PING) and not head[4] & _ACK:
                    self.connection.sendall(
                        _frame(head[3], _ACK, 0, payload if head[3] == _PING else b"")
                    )
        except ConnectionError:
            return None
        return list(found.values())


def _sent(number: int, one: Request) -> bytes:
    bare = not one.body and not one.trailers
    frames = _frame(
        _HEADERS, _END_HEADERS | (_END_STREAM if bare else 0), number, _block(one.fields)
    )
    if one.body:
        frames += _frame(_DATA, 0 if one.trailers else _END_STREAM, number, one.body)
    if one.trailers:
        frames += _frame(_HEADERS, _END_HEADERS | _END_STREAM, number, _block(one.trailers))
    return frames


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


def _block(fields: Fields) -> bytes:
    """Fields as literals, without a table and without Huffman's code."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)


def _text(octets: bytes) -> bytes:
    if len(octets) < 127:
        return bytes((len(octets),)) + octets
    rest, length = len(octets) - 127, b"\x7f"
    while rest >= 128:
        length += bytes((rest % 128 + 128,))
        rest //= 128
    return length + bytes((rest,)) + octets


def _status(block: bytes) -> int:
    """The first field of an answer, which is its status, as nginx spells it: from the static table,
    or three digits as a literal.
    """
    at = 1 if block[0] >> 5 == 1 else 0
    if block[at] & 0x80:
        return _STATIC_STATUSES[block[at] & 0x7F]
    return int(block[at + 2 : at + 5])
