"""The answers of each protocol. Every text says that it comes from a stub; calls that no stub can
imitate get status 501.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from inferplan.rehearsal.serving.payload.replicas import Model, Replica
from inferplan.rehearsal.serving.payload.web import Answer, Denied, Request

_TEXT = "This is the stub of {model} in a rehearsal. No model has read the {words} of the prompt."
_DEFAULT_TOKENS = 256
_EMBEDDING_SIZE = 16


async def answer(model: Model, replica: Replica, kind: str, request: Request, path: str) -> Answer:
    """The answer of `replica` to a call by protocol `kind`; `path` is that of the call below the
    prefix of the protocol.
    """
    if model.fails_next():
        replica.counts["failure"] += 1
        raise Denied(
            500, f"The profile of the rehearsal lets request {model.requests} fail (failEvery)."
        )
    if kind == "openai":
        return await _openai(model, replica, request, path)
    if kind == "ray-serve":
        return _application(model, replica, request, path)
    return await _tensors(model, replica, request, path)


def words_of(
    model: Model, prompt: str, limit: int | None = None, *, endless: bool = False
) -> list[str]:
    """The tokens of an answer, a word each with its space: at most `limit`, and as many with
    `endless`.
    """
    count = len(prompt.split())
    words = _TEXT.format(
        model=model.spec["name"], words="1 word" if count == 1 else f"{count} words"
    ).split()
    limit = _DEFAULT_TOKENS if limit is None else limit
    chosen = [words[index % len(words)] for index in range(limit)] if endless else words[:limit]
    return [chosen[0], *(f" {word}" for word in chosen[1:])] if chosen else []


async def spoken(
    model: Model, replica: Replica, prompt: str, words: list[str]
) -> AsyncGenerator[str]:
    async with aclosing(
        replica.tokens(model.spec["profile"], len(prompt.split()), len(words))
    ) as numbers:
        async for number in numbers:
            yield words[number]


async def _whole(model: Model, replica: Replica, prompt: str, words: list[str]) -> str:
    return "".join([word async for word in spoken(model, replica, prompt, words)])


async def _openai(model: Model, replica: Replica, request: Request, path: str) -> Answer:
    names = model.spec["served_names"]
    if request.method == "GET":
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "inferplan-stub"}
            for name in names
        ]
        if path == "/models":
            return _json({"object": "list", "data": models})
        return _json(
            next((each for each in models if path == f"/models/{each['id']}"), None)
            or _unknown(path.rpartition("/")[2])
        )
    body = request.json()
    name = body.get("model", names[0] if names else "")
    if name not in names:
        _unknown(name)
    if path == "/embeddings":
        return await _embeddings(model, replica, name, body)
    if path not in ("/chat/completions", "/completions"):
        raise Denied(
            501,
            f"The stub of {model.spec['name']} does not imitate {path}. Only a real server"
            " answers it.",
        )
    chat = path == "/chat/completions"
    prompt = _prompt(body.get("messages") or []) if chat else str(body.get("prompt", ""))
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise Denied(400, "max_tokens must be at least 1.")
    words = words_of(model, prompt, limit, endless=bool(body.get("ignore_eos")))
    reason = (
        "length"
        if limit is not None and len(words) == limit and not body.get("ignore_eos")
        else "stop"
    )
    counts = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(words)}
    usage = {**counts, "total_tokens": sum(counts.values())}
    suffix = {"id": f"stub-{model.requests}", "created": int(time.time()), "model": name}
    if body.get("stream"):
        start = {**suffix, "object": "chat.completion.chunk" if chat else "text_completion"}
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        pieces = spoken(model, replica, prompt, words)
        return Answer(
            body=_events(pieces, start, reason, usage if wants_usage else None, chat=chat),
            type="text/event-stream",
        )
    text = await _whole(model, replica, prompt, words)
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    kind = "chat.completion" if chat else "text_completion"
    return _json(
        {
            **suffix,
            "object": kind,
            "choices": [{"index": 0, **choice, "finish_reason": reason}],
            "usage": usage,
        }
    )


async def _events(
    words: AsyncIterator[str],
    start: Mapping[str, Any],
    reason: str,
    usage: Mapping[str, int] | None,
    *,
    chat: bool,
) -> AsyncGenerator[bytes]:
    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        return f"data: {json.dumps({**start, 'choices': choices, **more})}\n\n".encode()

    role = {"role": "assistant"}
    async for word in words:
        part = {"delta": {**role, "content": word}} if chat else {"text": word}
        role = {}
        yield event([{"index": 0, **part, "finish_reason": None}])
    yield event(
        [{"index": 0, **({"delta": {}} if chat else {"text": ""}), "finish_reason": reason}]
    )
    if usage is not None:
        yield event([], usage=usage)
    yield b"data: [DONE]\n\n"


async def _embeddings(model: Model, replica: Replica, name: str, body: Mapping[str, Any]) -> Answer:
    inputs = body.get("input", "")
    texts = inputs if isinstance(inputs, list) else [inputs]
    await _whole(model, replica, " ".join(map(str, texts)), [""])
    # Each text has its own direction, which says nothing about its meaning.
    vectors = [
        [math.sin(1 + index + sum(str(text).encode())) for index in range(_EMBEDDING_SIZE)]
        for text in texts
    ]
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(len(str(text).split()) for text in texts)
    return _json(
        {
            "object": "list",
            "model": name,
            "data": data,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


def _prompt(messages: list[Any]) -> str:
    contents = [each.get("content") or "" for each in messages if isinstance(each, dict)]
    return " ".join(
        str(part)
        for content in contents
        for part in (_texts(content) if isinstance(content, list) else [content])
    )


def _texts(parts: list[Any]) -> list[str]:
    return [str(each.get("text", "")) for each in parts if isinstance(each, dict)]


def _unknown(name: str) -> Any:
    raise Denied(404, f"The model `{name}` does not exist.")


def _json(value: Any) -> Answer:
    return Answer(body=json.dumps(value).encode())


def _application(model: Model, replica: Replica, request: Request, path: str) -> Answer:
    prefixes = [
        each["prefix"].rstrip("/")
        for each in model.spec["routes"]
        if request.method in each["methods"]
    ]
    if not any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes):
        raise Denied(404, f"No application of {model.spec['name']} has the route {path}.")
    prompt = request.body.decode("utf-8", "replace")

    async def lines() -> AsyncGenerator[bytes]:
        async for word in spoken(model, replica, prompt, words_of(model, prompt)):
            yield word.encode()
        yield b"\n"

    return Answer(body=lines(), type="text/plain; charset=utf-8")


def tensors_of(model: Model, name: str) -> Mapping[str, Any]:
    """The inputs and outputs of the served model `name`. Raises Denied with status 404 for an
    unknown one, 501 for undeclared tensors.
    """
    if name not in model.spec["served_names"]:
        raise Denied(404, f"Request for unknown model: '{name}' is not found")
    tensors = next((each for each in model.spec["tensors"] if each["model"] == name), None)
    if tensors is None:
        raise Denied(
            501,
            f"The stack file does not declare the tensors of {name}, so its stub cannot answer.",
        )
    return tensors


def prompt_of(model: Model, name: str, values: Callable[[str], Any]) -> str:
    text = next((each for each in model.spec["texts"] if each["model"] == name), None)
    return "" if text is None else str(values(text["input"]) or "")


def values_of(tensor: Mapping[str, Any], text: str) -> list[Any]:
    """The elements of an output: `text` in each of a text tensor, else zero."""
    zero = {"BYTES": text, "BOOL": False}.get(
        tensor["datatype"], 0.0 if "FP" in tensor["datatype"] or tensor["datatype"] == "BF16" else 0
    )
    return [zero] * math.prod(tensor["shape"])


async def _tensors(model: Model, replica: Replica, request: Request, path: str) -> Answer:
    name, _, call = path.removeprefix("/models/").partition("/")
    if call.startswith("versions/"):
        call = call.partition("/")[2].partition("/")[2]
    tensors = tensors_of(model, name)
    head = {"model_name": name, "model_version": "1"}
    if request.method == "GET":
        return _json(
            {
                "name": name,
                "versions": ["1"],
                "platform": "inferplan-stub",
                "inputs": tensors["inputs"],
                "outputs": tensors["outputs"],
            }
        )
    length = int(request.headers.get("inference-header-content-length") or len(request.body))
    body = Request(method=request.method, path=path, headers={}, body=request.body[:length]).json()
    inputs = {
        each["name"]: (each.get("data") or [""])[0] for each in body.get("inputs") or ()
    } or body
    prompt = prompt_of(model, name, inputs.get)
    words = words_of(model, prompt)
    if call == "generate_stream":
        return Answer(
            body=_stream(spoken(model, replica, prompt, words), head, tensors),
            type="text/event-stream",
        )
    text = await _whole(model, replica, prompt, words)
    if call == "generate":
        return _json(
            {
                **head,
                **{
                    each["name"]: text for each in tensors["outputs"] if each["datatype"] == "BYTES"
                },
            }
        )
    outputs = [
        {
            "name": each["name"],
            "datatype": each["datatype"],
            "shape": each["shape"],
            "data": values_of(each, text),
        }
        for each in tensors["outputs"]
    ]
    return _json({**head, "outputs": outputs})


async def _stream(
    words: AsyncIterator[str], head: Mapping[str, str], tensors: Mapping[str, Any]
) -> AsyncGenerator[bytes]:
    names = [each["name"] for each in tensors["outputs"] if each["datatype"] == "BYTES"]
    async for word in words:
        yield f"data: {json.dumps({**head, **dict.fromkeys(names, word)})}\n\n".encode()
