"""A model server that keeps connections and notes which consumers' calls each of them carried."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Self

from tests.patience import PATIENCE_SECONDS

EXTRA_SECONDS = 0.02


@dataclass
class Carried:
    """One connection: its callers in order, and when it began and had its last call."""

    callers: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    used: float = 0.0
    closed: threading.Event = field(default_factory=threading.Event)


class RecordingServer:
    """Answers each request with the name of its consumer.

    `poisons` sends a second answer, of the same consumer, 20 ms after each. `drops` reads requests
    and closes without an answer, from the `drops`-th of each connection on; 0 never does.
    """

    def __init__(
        self, *, poisons: bool = False, drops: int = 0, address: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.poisons, self.drops = poisons, drops
        self.address, self.port = address, port
        self.carried: list[Carried] = []
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(PATIENCE_SECONDS)

    @property
    def calls(self) -> list[str]:
        return [caller for each in self.carried for caller in each.callers]

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        server = await asyncio.start_server(self._connection, self.address, self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopped.wait()
        server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connections:
            task.cancel()
        # The sockets are closed in the turn after the tasks have ended.
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried = Carried()
        self.carried.append(carried)
        with contextlib.suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        ):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
                await reader.readexactly(int(headers.get("content-length", "0")))
                carried.callers.append(headers["x-consumer"])
                carried.used = time.monotonic()
                if self.drops and len(carried.callers) >= self.drops:
                    break
                answer = _answer(headers["x-consumer"])
                writer.write(answer)
                await writer.drain()
                if self.poisons:
                    await asyncio.sleep(EXTRA_SECONDS)
                    writer.write(answer)
                if headers.get("connection") == "close":
                    break
        writer.close()
        carried.closed.set()


def _answer(caller: str) -> bytes:
    body = json.dumps({"caller": caller}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
