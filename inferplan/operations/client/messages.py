"""The request of one prompt in each HTTP protocol, the text in its answer, and the errors of answers. It opens no connection."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from inferplan.operations.client.target import Caller, Target
from inferplan.operations.errors import OperationError, one_line

_REMEDIES = {
    401: "The key of {consumer} is not valid at this gateway. If the key changed since the last update, run: inferplan up {stack}",
    403: "Add {consumer} to models.{model}.consumers and run: inferplan up {stack}",
    404: "The gateway at {url} has no such route. Check that it is the gateway of {stack}, or update it: inferplan up {stack}",
    429: "{consumer} exceeds its limits (consumers.{consumer}.limits). Wait, or raise them",
    503: "No server of {model} is ready: inferplan status {stack}",
}
_OTHERWISE = "The server of {model} rejects the request itself"


class AnswerError(Exception):
    """A server answered with a failure; the message is that of the server."""


@dataclass(frozen=True, kw_only=True)
class Request:
    url: str
    body: dict[str, Any]


def request_of(target: Target, prompt: str, max_tokens: int) -> Request:
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
            inputs.append({"name": text.tokens, "shape": list(text.shape), "datatype": text.tokens_type, "data": [max_tokens]})
        return Request(url=f"{base}/infer", body=body)
    stream: dict[str, Any] = {} if text.stream is None else {text.stream: True}
    return Request(url=f"{base}/generate_stream", body={text.input: prompt, "max_tokens": max_tokens, **stream})


def text_of(target: Target, lines: Iterable[str]) -> Iterator[str]:
    """The pieces of text in the lines of an answer, as they arrive. Raises AnswerError if the server reports a failure in it."""
    if target.kind == "openai":
        for event in _events(lines):
            contents = (choice.get("delta", {}).get("content") for choice in event.get("choices", []))
            yield from filter(None, contents)
    elif target.kind == "triton-generate" and target.text is not None:
        for event in _events(lines):
            piece = event.get(target.text.output, "")
            yield from piece if isinstance(piece, list) else [piece]
    elif target.kind == "kserve-v2-http" and target.text is not None:
        for tensor in json.loads("".join(lines)).get("outputs", []):
            if tensor["name"] == target.text.output:
                yield from map(str, tensor["data"])
    else:
        yield from (f"{line}\n" for line in lines)


def error_text(body: str) -> str:
    """The error message in the body of an answer, in one line; the beginning of the body if it has none."""
    try:
        message = json.loads(body)
    except ValueError:
        message = body
    if isinstance(message, dict):
        error = message.get("error", message)
        message = error.get("message", error) if isinstance(error, dict) else error
    return one_line(message)


def denial_error(status: int, message: str, target: Target, who: Caller, stack: str) -> OperationError:
    key = 503 if status in (502, 504) else status
    remedy = _REMEDIES.get(key, _OTHERWISE).format(consumer=who.consumer, model=target.model, url=target.url, stack=stack)
    return OperationError(f"{target.model} answers {status}: {message}. {remedy}")


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
        except ValueError as error:
            raise AnswerError(f"sent an event that is not JSON: {data[:100]!r}") from error
        if isinstance(event, dict) and event.get("error"):
            raise AnswerError(error_text(data))
        yield event
