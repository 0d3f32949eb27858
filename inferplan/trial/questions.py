"""The questions of a trial to a server of the OpenAI protocol: one of each kind that its clients may
send.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferplan.errors import RequestError

_ANSWER_TOKENS = 4
_TEXT = "What is the answer?"
_SILENCE_SECONDS = 120.0
_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class Question:
    """A call: its `kind` in words, the path and the body."""

    kind: str
    path: str
    body: Mapping[str, Any]


def request_in(file: Path) -> Question:
    """The request in `file`: its path and body as JSON. Raises RequestError."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        return Question(f"the request of {file.name}", document["path"], document["body"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(
            f"--request: {file} is not a request ({type(error).__name__}: {error}). Write a JSON"
            ' object with its path and body: {"path": "/v1/completions", "body": {...}}'
        ) from None


@dataclass(frozen=True)
class Answer:
    """The status and the text of an answer; the status is 0 if none came."""

    status: int
    text: str

    @property
    def message(self) -> str:
        """The server's own sentence."""
        try:
            document = json.loads(self.text)
        except ValueError:
            return self.text.strip()
        error = document.get("error", document) if isinstance(document, dict) else document
        return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def ask(url: str, question: Question, key: str) -> Answer:
    """Send `question` to the server at `url`."""
    return _call("POST", f"{url}{question.path}", key, json=question.body)


def read(url: str, path: str, key: str) -> Any:
    """The document at `path`; None if the server has none."""
    answer = _call("GET", f"{url}{path}", key)
    try:
        return json.loads(answer.text) if answer.status == 200 else None
    except ValueError:
        return None


def _call(method: str, url: str, key: str, **body: Any) -> Answer:
    import urllib3

    try:
        answer = urllib3.request(
            method,
            url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=_SILENCE_SECONDS,
            retries=False,
            **body,
        )
    except urllib3.exceptions.HTTPError as error:
        return Answer(0, f"no answer ({type(error).__name__})")
    return Answer(answer.status, answer.data.decode(errors="replace"))


def questions(
    names: Sequence[str],
    paths: Sequence[str],
    *,
    longest: int,
    special: Sequence[int],
    tools: bool,
) -> Iterator[Question]:
    """The questions for the models `names`, of which the first is the base model, on a server with
    the routes `paths`: the `longest` prompt in tokens, and the `special` tokens of the tokenizer.
    """
    base = names[0]
    chat, text = "/v1/chat/completions", "/v1/completions"
    messages = [{"role": "user", "content": _TEXT}]
    if text in paths:
        body = {"model": base, "messages": messages, "max_tokens": _ANSWER_TOKENS}
        yield Question("a chat", chat, body)
        if tools:
            yield Question("a tool call", chat, {**body, "tools": [_TOOL], "tool_choice": "auto"})
        for name in names[1:]:
            yield Question(
                f"adapter {name}",
                text,
                {"model": name, "prompt": _TEXT, "max_tokens": _ANSWER_TOKENS},
            )
        if special:
            yield Question(
                "every special token",
                text,
                {"model": base, "prompt": list(special), "max_tokens": 1},
            )
        yield Question(
            f"a prompt of {longest} tokens",
            text,
            {"model": base, "prompt": [1] * longest, "max_tokens": 1},
        )
        return
    for path, body in (
        ("/v1/embeddings", {"input": _TEXT}),
        ("/classify", {"input": _TEXT}),
        ("/score", {"text_1": _TEXT, "text_2": _TEXT}),
        ("/pooling", {"input": _TEXT}),
    ):
        if path in paths:
            yield Question(path.rpartition("/")[2], path, {"model": base, **body})
            return
