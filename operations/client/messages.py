"""What one prompt looks like in each HTTP protocol, and where the text is in what comes back. It opens no connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operations.client.target import Target


class AnswerError(Exception):
    """A server answered, and what it said is a failure; the message is the server's own."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A POST: its address and its JSON body."""

    url: str
    body: dict[str, Any]


def request_of(target: Target, prompt: str, max_tokens: int) -> Request:
    """The request that puts `prompt` to `target`. Not for gRPC, whose messages are no JSON."""
    if target.kind == "openai":
        turns = [{"role": "user", "content": prompt}]
        return Request(
            url=f"{target.url}/chat/completions", body={"model": target.name, "messages": turns, "max_tokens": max_tokens, "stream": True}
        )
    if target.kind == "ray-serve" or target.text is None:
        return Request(url=target.url + target.path, body={"prompt": prompt, "max_tokens": max_tokens})
    text = target.text
    base = f"{target.url}/models/{target.name}"
    if target.kind == "kserve-v2-http":
        inputs = [{"name": text.input, "shape": list(text.shape), "datatype": "BYTES", "data": [prompt]}]
        body: dict[str, Any] = {"inputs": inputs, "outputs": [{"name": text.output}]}
        if text.tokens is None:
            body["parameters"] = {"max_tokens": max_tokens}
        else:
            inputs.append({"name": text.tokens, "shape": list(text.shape), "datatype": "INT32", "data": [max_tokens]})
        return Request(url=f"{base}/infer", body=body)
    asked: dict[str, Any] = {} if text.stream is None else {text.stream: True}
    return Request(url=f"{base}/generate_stream", body={text.input: prompt, "max_tokens": max_tokens, **asked})


def text_of(target: Target, lines: Iterable[str]) -> Iterator[str]:
    """The pieces of text in the lines of an answer, as they come. Raises AnswerError where the server reports a failure in it."""
    if target.kind == "openai":
        yield from _openai(_events(lines))
    elif target.kind == "triton-generate" and target.text is not None:
        yield from _generated(_events(lines), target.text.output)
    elif target.kind == "kserve-v2-http" and target.text is not None:
        yield from _inferred("".join(lines), target.text.output)
    else:
        yield from _plain(lines)


def refusal(body: str) -> str:
    """What a server or the gateway says for a refusal, in one line: its error's message, else the beginning of the body."""
    try:
        said = json.loads(body)
    except ValueError:
        said = body
    if isinstance(said, dict):
        error = said.get("error", said)
        said = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(said).split())[:300]


def _events(lines: Iterable[str]) -> Iterator[Any]:
    """The JSON of server-sent events; an event of one `data:` line, which is what every engine sends."""
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        try:
            event = json.loads(data)
        except ValueError as broken:
            raise AnswerError(f"sent an event that is no JSON: {data[:100]!r}") from broken
        if isinstance(event, dict) and event.get("error"):
            raise AnswerError(refusal(data))
        yield event


def _openai(events: Iterable[Any]) -> Iterator[str]:
    for event in events:
        for choice in event.get("choices", []):
            if piece := choice.get("delta", {}).get("content"):
                yield piece


def _generated(events: Iterable[Any], output: str) -> Iterator[str]:
    for event in events:
        piece = event.get(output, "")
        yield from piece if isinstance(piece, list) else [piece]


def _inferred(body: str, output: str) -> Iterator[str]:
    for tensor in json.loads(body).get("outputs", []):
        if tensor["name"] == output:
            yield from map(str, tensor["data"])


def _plain(lines: Iterable[str]) -> Iterator[str]:
    """An application's own answer: as it is, line by line."""
    for line in lines:
        yield f"{line}\n"
