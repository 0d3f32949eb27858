"""A small HTTP/1.1 server: one request per connection, bodies with a length or in chunks, answers
as a whole or streamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

_HEAD_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request; `headers` have names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = field(repr=False)

    def json(self) -> dict[str, Any]:
        """The object in the body. Raises Denied with status 400 for anything else."""
        try:
            value = json.loads(self.body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Denied(400, "The body is not a JSON object. Send one.")
        return value


@dataclass(kw_only=True)
class Answer:
    """An answer: a whole body, or pieces that are sent as they come."""

    body: bytes | AsyncGenerator[bytes]
    status: int = 200
    type: str = "application/json"


class Denied(Exception):  # noqa: N818 - an answer rather than an error of this program
    """The request gets an error as its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


Handler = Callable[[Request], Awaitable[Answer]]


class Listener:
    """A TCP port on 127.0.0.1 that is always reserved, and takes connections only while it is open,
    as a Service with ready pods does.
    """

    def __init__(
        self,
        port: int,
        connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        self._port, self._connected = port, connected
        self._server: asyncio.Server | None = None
        self._turn = asyncio.Lock()

    async def set_open(self, *, wanted: bool) -> None:
        async with self._turn:
            if self._server is not None and wanted:
                await self._server.start_serving()
            elif self._server is None or self._server.is_serving():
                self.close()
                # It binds the port, and listens when it starts to serve.
                self._server = await asyncio.start_server(
                    self._connected, "127.0.0.1", self._port, backlog=1024, start_serving=wanted
                )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


async def converse(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    handle: Handler,
    headers: dict[str, str],
) -> None:
    """Answer the one request of a connection; its work ends when the client is gone."""
    with contextlib.suppress(
        OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError
    ):
        request = await asyncio.wait_for(_read(reader), _HEAD_SECONDS)
        work = asyncio.ensure_future(_answer(writer, request, handle, headers))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
    writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    if "chunked" in headers.get("transfer-encoding", ""):
        body = b"".join([piece async for piece in _chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length") or 0))
    return Request(method=method, path=target.partition("?")[0], headers=headers, body=body)


async def _chunks(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    while size := int((await reader.readline()).partition(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readline()
    await reader.readline()


async def _answer(
    writer: asyncio.StreamWriter, request: Request, handle: Handler, headers: dict[str, str]
) -> None:
    try:
        answer = await handle(request)
    except Denied as error:
        message = {
            "error": {
                "message": error.message,
                "type": HTTPStatus(error.status).phrase.replace(" ", ""),
                "code": error.status,
            }
        }
        answer = Answer(body=json.dumps(message).encode(), status=error.status)
    body = answer.body
    streams = not isinstance(body, bytes)
    fields = {"Content-Type": answer.type, "Connection": "close", **headers}
    fields |= {"Transfer-Encoding": "chunked"} if streams else {"Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{head}\r\n".encode(
            "latin-1"
        )
    )
    if isinstance(body, bytes):
        writer.write(body)
    else:
        async with aclosing(body) as pieces:
            async for piece in pieces:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
    if streams:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
