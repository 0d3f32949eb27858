"""A server that streams like vLLM and ends requests as vLLM's OutputProcessor does, with the real
usage_log.py around it: `python usage_stub.py PORT USAGE_LOG`. tests/dataplane/serving/test_usage.py
holds the same lines against vLLM itself in the full lane.

A token is a byte, as in the tiny model. `max_tokens` tokens are made.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

TEMPLATE = "user: {}\nassistant:"


class OutputProcessor:
    """What usage_log.py knows of vLLM's class: requests by id, which leave by `pop`."""

    def __init__(self) -> None:
        self.request_states: dict[str, Any] = {}


def _state(request: str, prompt: str, adapter: str | None) -> SimpleNamespace:
    made = SimpleNamespace(count=0)
    made.num_output_tokens = lambda: made.count
    return SimpleNamespace(
        external_req_id=request,
        prompt_len=len(prompt),
        is_prefilling=True,
        num_cached_tokens=0,
        lora_name=adapter,
        detokenizer=made,
        stats=SimpleNamespace(scheduled_ts=time.monotonic()),
    )


class Server:
    def __init__(self, names: tuple[str, str]) -> None:
        self.name, self.adapter = names
        self.processor = OutputProcessor()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                line, *fields = head.splitlines()
                named = dict(each.lower().split(": ", 1) for each in fields if ": " in each)
                body = await reader.readexactly(int(named.get("content-length", 0)))
                await self._one(line.split()[1], named, json.loads(body), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    def _running(
        self, path: str, request: str, body: dict[str, Any]
    ) -> list[tuple[str, SimpleNamespace]]:
        """The sequences of a request by their own ids: `n` for each prompt."""
        adapter = self.adapter if body["model"] == self.adapter else None
        if path.endswith("chat/completions"):
            text = TEMPLATE.format(body["messages"][0]["content"])
            prompts = {f"chatcmpl-{request}": text}
        else:
            texts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
            prompts = {f"cmpl-{request}-{index}": text for index, text in enumerate(texts)}
        return [
            (f"{copy}_{own}", _state(own, text, adapter))
            for own, text in prompts.items()
            for copy in range(body.get("n", 1))
        ]

    async def _one(
        self, path: str, named: dict[str, str], body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        if body["max_tokens"] < 1 or body["model"] not in (self.name, self.adapter):
            status = "400 Bad Request" if body["max_tokens"] < 1 else "404 Not Found"
            await _send(writer, status, {"error": {}})
            return
        running = self._running(path, named["x-request-id"], body)
        states = self.processor.request_states
        states.update(running)
        try:
            if body.get("stream"):
                await _head(writer, "200 OK", "text/event-stream", None)
            for _ in range(body["max_tokens"]):
                for _, state in running:
                    state.is_prefilling = False
                    state.detokenizer.count += 1
                if body.get("stream"):
                    await _event(writer, {"choices": [{"delta": {"content": "x"}}]})
                # Other requests, and the news that this client has left.
                await asyncio.sleep(0)
                if writer.transport.is_closing():
                    raise ConnectionResetError
        finally:
            for key, _ in running:
                states.pop(key, None)
        prompts = {state.external_req_id: state.prompt_len for _, state in running}
        made = sum(state.detokenizer.count for _, state in running)
        sizes = {"prompt_tokens": sum(prompts.values()), "completion_tokens": made}
        if not body.get("stream"):
            await _send(writer, "200 OK", {"choices": [], "usage": sizes})
            return
        if body.get("stream_options"):
            await _event(writer, {"choices": [], "usage": sizes})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()


async def _head(writer: asyncio.StreamWriter, status: str, kind: str, size: int | None) -> None:
    length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode())
    await writer.drain()


async def _send(writer: asyncio.StreamWriter, status: str, document: dict[str, Any]) -> None:
    content = json.dumps(document, separators=(",", ":")).encode()
    await _head(writer, status, "application/json", len(content))
    writer.write(content)
    await writer.drain()


async def _event(writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
    content = f"data: {json.dumps(document, separators=(',', ':'))}\n\n".encode()
    writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
    await writer.drain()


async def main(port: int, usage_log: str, *names: str) -> None:
    for name in ("vllm", "vllm.v1", "vllm.v1.engine", "vllm.v1.engine.output_processor"):
        sys.modules[name] = ModuleType(name)
    vars(sys.modules["vllm.v1.engine.output_processor"])["OutputProcessor"] = OutputProcessor
    sys.path.insert(0, str(Path(usage_log).parent))
    runpy.run_path(usage_log, run_name="program")
    server = await asyncio.start_server(Server((names[0], names[1])).answer, "127.0.0.1", port)
    print("listens", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
