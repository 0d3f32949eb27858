"""A load of mixed requests through a gateway: whole answers, streams, adapters, errors, and clients
that leave. Each client knows what its request must have used.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TEMPLATE_TOKENS = len("user: \nassistant:")
"""What the template of the tiny model adds to a message, whose tokens are bytes."""


@dataclass
class Sent:
    """One request as its client saw it. The tokens are None if it left before its answer ended."""

    kind: str
    consumer: str
    adapter: str
    request_id: str = ""
    status: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    usage: dict[str, int] = field(default_factory=dict)
    events: int = 0


@dataclass(frozen=True)
class Gateway:
    port: int
    keys: Mapping[str, str]
    model: str
    adapter: str


# The share of each kind in a thousand.
KINDS = {
    "chat": 150,
    "chat stream": 200,
    "chat stream with usage": 150,
    "completion": 100,
    "completion of two prompts, two answers": 50,
    "adapter stream": 100,
    "leaves a stream": 120,
    "leaves before the answer": 50,
    "invalid": 30,
    "unknown name": 10,
    "wrong key": 20,
    "no right": 20,
}


# What a request of a kind has that makes it fail.
_FAULTS: dict[str, dict[str, Any]] = {
    "invalid": {"max_tokens": -1},
    "unknown name": {"model": "other"},
    "wrong key": {},
    "no right": {},
}


def kinds(count: int, seed: int) -> list[str]:
    return _random(seed).choices(list(KINDS), list(KINDS.values()), k=count)


def _random(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - chooses requests, and no secret


def _request(
    kind: str, gateway: Gateway, chosen: random.Random
) -> tuple[Sent, str, dict[str, Any]]:
    """A request of `kind`: what its client expects, its path and its body."""
    consumer = chosen.choice(["team", "batch"])
    name = gateway.adapter if kind == "adapter stream" or chosen.random() < 0.1 else gateway.model
    if kind == "no right":
        consumer = "other"
    if kind.startswith("leaves"):
        # Apart from the others, whose sums are known exactly.
        consumer = "hasty"
    sent = Sent(kind, consumer, "" if name == gateway.model else name)
    text, tokens = "x" * chosen.randint(1, 40), chosen.randint(1, 24)
    body: dict[str, Any] = {"model": name, "max_tokens": tokens, "ignore_eos": True, "seed": 1}
    chat = kind not in ("completion", "completion of two prompts, two answers")
    if chat:
        body["messages"] = [{"role": "user", "content": text}]
        sent.tokens_in, sent.tokens_out = TEMPLATE_TOKENS + len(text), tokens
    else:
        body["prompt"] = text
        sent.tokens_in, sent.tokens_out = len(text), tokens
    if kind == "completion of two prompts, two answers":
        body |= {"prompt": [text, text + "y"], "n": 2}
        sent.tokens_in, sent.tokens_out = 2 * len(text) + 1, 4 * tokens
    if "stream" in kind:
        body["stream"] = True
    if kind == "chat stream with usage":
        body["stream_options"] = {"include_usage": True}
    if kind.startswith("leaves"):
        body["max_tokens"] = 150
        sent.tokens_in = sent.tokens_out = None
    if kind in _FAULTS:
        sent.tokens_in = sent.tokens_out = 0
        sent.adapter = ""
        body |= _FAULTS[kind]
    base = chosen.choice(["", f"/{gateway.model}"])
    return sent, f"{base}/v1/{'chat/' if chat else ''}completions", body


async def send(kind: str, gateway: Gateway, chosen: random.Random) -> Sent:
    sent, path, body = _request(kind, gateway, chosen)
    key = "ipk_wrong" if kind == "wrong key" else gateway.keys[sent.consumer]
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: llm.test\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(head.encode() + content)
        await writer.drain()
        if kind == "leaves before the answer":
            await asyncio.sleep(chosen.random() / 20)  # at any moment of the request
            return sent
        status, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        sent.status = int(status.split()[1])
        named = dict(each.lower().split(": ", 1) for each in headers if ": " in each)
        sent.request_id = named["x-request-id"]
        leaves_after = chosen.randint(1, 40) if kind == "leaves a stream" else None
        rest = b""
        async for line in reader:
            sent.events += line.startswith(b"data: {")
            if b'"usage":{' in line:
                rest = line
            if leaves_after is not None and sent.events >= leaves_after:
                return sent
        if rest:
            document = rest[rest.index(b"{") : rest.rindex(b"}") + 1]
            sent.usage = json.loads(document)["usage"]
        return sent
    finally:
        writer.transport.abort()


async def run(gateway: Gateway, count: int, *, at_once: int, seed: int = 52) -> list[Sent]:
    """Send `count` requests, `at_once` at a time."""
    room = asyncio.Semaphore(at_once)

    async def one(number: int, kind: str) -> Sent:
        async with room:
            return await send(kind, gateway, _random(seed * 1_000_003 + number))

    return await asyncio.gather(*(one(*each) for each in enumerate(kinds(count, seed))))
