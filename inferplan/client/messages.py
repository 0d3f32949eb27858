"""The request of one prompt in each HTTP protocol, the text in its answer, and the errors of
answers. It opens no connection.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from inferplan.client.target import Caller, Target
from inferplan.errors import OperationError, one_line

_REMEDIES = {
    401: (
        "The key of {consumer} is not valid at this gateway. If the key changed since the last"
        " update, run: inferplan up {stack}"
    ),
    403: "Add {consumer} to models.{model}.consumers and run: inferplan up {stack}",
    404: (
        "Add {consumer} to models.{model}.consumers, or check that {url} is the gateway of {stack}."
        " Then run: inferplan up {stack}"
    ),
    429: "{consumer} exceeds its limits (consumers.{consumer}.limits). Wait, or raise them",
    503: "No server of {model} is ready: inferplan status {stack}",
}
_REDIRECT = "If that is the gateway, name it with --gateway URL"
_OTHERWISE = "The server of {model} rejects the request itself"

ANSWER = "answer"
# What the fields of a message of OpenAI's API hold; vLLM calls the second one `reasoning`, older
# versions `reasoning_content`.
_FIELDS = {
    "content": ANSWER,
    "reasoning": "reasoning",
    "reasoning_content": "reasoning",
    "refusal": "a refusal",
}
_DONE: dict[str, Any] = {}
# C0 and C1 controls except tab and line feed, and the characters that reverse the direction of
# text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class AnswerError(Exception):
    """A server answered with a failure or without an answer; the message follows the name of the
    model.
    """


@dataclass(frozen=True)
class Part:
    """A piece of what a model sent: of its answer, of its reasoning, or of a tool call."""

    text: str
    kind: str = ANSWER


@dataclass(frozen=True, kw_only=True)
class Request:
    url: str
    body: dict[str, Any]


def request_of(target: Target, prompt: str, max_tokens: int) -> Request:
    if target.endpoint.task != "generate":
        return _request_of_task(target, prompt)
    if target.kind == "openai":
        turns = [{"role": "user", "content": prompt}]
        return Request(
            url=f"{target.url}/chat/completions",
            body={
                "model": target.name,
                "messages": turns,
                "max_tokens": max_tokens,
                "stream": True,
            },
        )
    if target.kind == "ray-serve" or target.text is None:
        return Request(
            url=target.url + target.path, body={"prompt": prompt, "max_tokens": max_tokens}
        )
    text = target.text
    base = f"{target.url}/models/{target.name}"
    if target.kind == "kserve-v2-http":
        inputs = [
            {"name": text.input, "shape": list(text.shape), "datatype": "BYTES", "data": [prompt]}
        ]
        body: dict[str, Any] = {"inputs": inputs, "outputs": [{"name": text.output}]}
        if text.tokens is None:
            body["parameters"] = {"max_tokens": max_tokens}
        else:
            inputs.append(
                {
                    "name": text.tokens,
                    "shape": list(text.shape),
                    "datatype": text.tokens_type,
                    "data": [max_tokens],
                }
            )
        return Request(url=f"{base}/infer", body=body)
    stream: dict[str, Any] = {} if text.stream is None else {text.stream: True}
    return Request(
        url=f"{base}/generate_stream", body={text.input: prompt, "max_tokens": max_tokens, **stream}
    )


def _request_of_task(target: Target, prompt: str) -> Request:
    """The request of a model that generates no text. That of speech has the name of a file."""
    path, body = {
        "embed": ("/embeddings", {"input": [prompt]}),
        "classify": ("/classify", {"input": [prompt]}),
        "rerank": ("/rerank", {"query": prompt, "documents": ["first text", "second text"]}),
        "transcribe": ("/audio/transcriptions", {"file": "speech.wav"}),
    }[target.endpoint.task]
    return Request(url=f"{target.url}{path}", body={"model": target.name, **body})


def parts_of(target: Target, lines: Iterable[str]) -> Iterator[Part]:
    """The parts in the lines of an answer, as they arrive. Raises AnswerError if the server reports
    a failure or ends the answer early.
    """
    if target.kind == "openai":
        yield from _openai_parts(_events(lines))
    elif target.kind == "triton-generate" and target.text is not None:
        for event in _events(lines):
            piece = event.get(target.text.output, "")
            yield from (Part(str(each)) for each in (piece if isinstance(piece, list) else [piece]))
    elif target.kind == "kserve-v2-http" and target.text is not None:
        for tensor in _json("".join(lines)).get("outputs", []):
            if tensor["name"] == target.text.output:
                yield from (Part(str(each)) for each in tensor["data"])
    else:
        yield from (Part(f"{line}\n") for line in lines)


def _openai_parts(events: Iterable[dict[str, Any]]) -> Iterator[Part]:
    reason, complete, started = None, False, False
    for event in events:
        complete = complete or event is _DONE
        for choice in event.get("choices") or ():
            reason = choice.get("finish_reason") or reason
            # A chunk of a stream has a delta, a whole answer has a message.
            message = choice.get("delta") or choice.get("message") or {}
            for field, kind in _FIELDS.items():
                if text := message.get(field):
                    yield Part(str(text), kind)
                    started = True
            for call in message.get("tool_calls") or ():
                function = call.get("function") or {}
                yield Part(
                    f"{function.get('name') or ''}{function.get('arguments') or ''}", "a tool call"
                )
    if started and reason is None and not complete:
        raise AnswerError("stopped in the middle of its answer. Repeat the call")
    if reason == "length":
        raise AnswerError("ended its answer at the limit of tokens. Allow more with --max-tokens")
    if reason not in (None, "stop", "tool_calls", "function_call"):
        raise AnswerError(f"ended its answer early: {one_line(reason)}")


def printable(text: str) -> str:
    """`text` without the power to control a terminal: escape and direction characters are spelled
    out, carriage returns removed.
    """
    return _CONTROL.sub(
        lambda match: match[0].encode("unicode_escape").decode(), text.replace("\r", "")
    )


def error_text(body: str) -> str:
    """The error message in the body of an answer, in one line; the beginning of the body if it has
    none.
    """
    try:
        message = json.loads(body)
    except ValueError:
        message = body
    if isinstance(message, dict):
        error = message.get("error", message)
        message = error.get("message", error) if isinstance(error, dict) else error
    return one_line(message)


class DenialError(OperationError):
    """An answer with an error, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def denial_error(status: int, message: str, target: Target, who: Caller, stack: str) -> DenialError:
    if 300 <= status < 400:
        return DenialError(
            status,
            f"{target.url} redirects to {message or 'nowhere'}, and the key is sent to no other"
            f" address. {_REDIRECT}",
        )
    key = 503 if status in (502, 504) else status
    remedy = _REMEDIES.get(key, _OTHERWISE).format(
        consumer=who.consumer, model=target.model, url=target.url, stack=stack
    )
    return DenialError(
        status, f"{target.model} answers {status}: {message.removesuffix('.')}. {remedy}"
    )


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The JSON of server-sent events, each of one `data:` line as every engine sends them, or of a
    body that is JSON as a whole.
    """
    other: list[str] = []
    for line in lines:
        if not line.startswith("data:"):
            other += (
                [line]
                if line.strip() and not line.startswith((":", "event:", "id:", "retry:"))
                else []
            )
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            yield _DONE
            return
        yield _json(data)
    if other:
        yield _json("\n".join(other))
        yield _DONE


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise AnswerError(f"sent text that is not JSON: {one_line(text)[:100]!r}") from error
    if not isinstance(value, dict) or value.get("error"):
        raise AnswerError(error_text(text))
    return value
