"""A model server in miniature: it writes down what reaches it, echoes it, and streams one event at
a time on demand.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from dataclasses import dataclass, field

from tests.patience import PATIENCE_SECONDS

_HEAD_LIMIT = 2**20


@dataclass(frozen=True)
class Seen:
    """One request as it arrived: the request target byte for byte, header names in lower case,
    every value in order.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class Backend:
    """Serves on a free loopback port from a thread of its own.

    The path decides: `.../completions` with a body of `{"stream": true}` sends server-sent events,
    each after a permit in `permits` (`"until_closed": true` ends them by closing instead of in
    chunks); `{"break": true}` promises more bytes than it sends; `{"hold": true}` answers after a
    permit. All else is echoed.
    """

    def __init__(self, *, address: str = "127.0.0.1", port: int = 0) -> None:
        self.address = address
        self.port = port
        self.seen: list[Seen] = []
        self.connections = 0
        self.permits: queue.Queue[str] = queue.Queue()
        self.holding = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Backend:
        self._thread.start()
        assert self._started.wait(PATIENCE_SECONDS)
        return self

    def stop(self) -> None:
        # Whatever still waits for a permit goes on, so that a test that failed half-way ends like
        # any other.
        for _ in range(10_000):
            self.permits.put("the end")
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        server = await asyncio.start_server(
            self._guarded, self.address, self.port, limit=_HEAD_LIMIT
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopped.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _guarded(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.split("\r\n")[:-2]
        method, target, _ = line.split(" ", 2)
        headers = tuple(
            (name.lower(), value.strip())
            for name, _, value in (each.partition(":") for each in fields)
        )
        body = await self._body(dict(headers), reader)
        self.seen.append(Seen(method, target, headers, body))
        wish = _wish(body)
        if wish.get("stream"):
            await self._stream(writer, wish)
            return not wish.get("until_closed")
        if wish.get("break"):
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length:"
                b" 1000\r\n\r\ndata: cut\n\n"
            )
            await writer.drain()
            return False
        if wish.get("hold"):
            self.holding.set()
            await asyncio.to_thread(self.permits.get)
        await self._echo(writer, method, target, headers, wish)
        return dict(headers).get("connection", "").lower() != "close"

    @staticmethod
    async def _body(headers: dict[str, str], reader: asyncio.StreamReader) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int((await reader.readline()).strip(), 16):
                parts.append(await reader.readexactly(size))
                await reader.readline()
            await reader.readline()
            return b"".join(parts)
        return await reader.readexactly(int(headers.get("content-length", "0")))

    async def _stream(self, writer: asyncio.StreamWriter, wish: dict[str, object]) -> None:
        chunked = not wish.get("until_closed")
        framing = "Transfer-Encoding: chunked" if chunked else "Connection: close"
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n\r\n".encode()
        )
        for number in range(int(str(wish.get("events", 5)))):
            event = f"data: {number}\n\n".encode()
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n" if chunked else event)
            await writer.drain()
            await asyncio.to_thread(self.permits.get)
        if chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    @staticmethod
    async def _echo(
        writer: asyncio.StreamWriter,
        method: str,
        target: str,
        headers: tuple[tuple[str, str], ...],
        wish: dict[str, object],
    ) -> None:
        answer = json.dumps({"method": method, "target": target, "headers": headers}).encode()
        extra = "".join(
            f"{name}: {value}\r\n"
            for name, value in dict(wish.get("answer_headers", {})).items()  # type: ignore[call-overload]  # JSON of our own tests
        )
        status = wish.get("answer_status", "200 OK")
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length:"
            f" {len(answer)}\r\n{extra}\r\n".encode()
            + answer
        )
        await writer.drain()


def _wish(body: bytes) -> dict[str, object]:
    try:
        wish = json.loads(body)
    except ValueError:
        return {}
    return wish if isinstance(wish, dict) else {}
