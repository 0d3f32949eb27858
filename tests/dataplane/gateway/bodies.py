"""Request bodies that a careless gateway and its backend read in two ways, with their headers;
deterministic for a seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

GOOD, FOREIGN = "llama", "mistral"
_KEYS = (
    "model",
    "Model",
    "MODEL",
    "m\\u006fdel",
    "\\u006dodel",
    "model ",
    "model\\u0000",
    "mod\\/el",
    "x",
    "messages",
    "",
    'say \\"model',
    "\u043codel",
)
_VALUES = (
    f'"{GOOD}"', f'"{FOREIGN}"', '"nothing"', '"l\\u006cama"', '"LLAMA"', '"llama "', '"llama\\n"', '"../mistral"', '"mistral/../llama"', "1", "null", "true",
    '["llama"]', '["mistral"]', '{"model":"mistral"}', '{"model":{"model":"llama"}}', "NaN", "1e999", "-", '""', '"\\ud800"', '"\\""', '"}"', '"{"', "'llama'",
)  # fmt: skip
_SPACES = ("", " ", "\n", "\t", "\r\n", "\x0b", "\xa0", "/**/", "//\n", "\x00")
_CONTENT_TYPES = (
    "application/json", "application/json", "application/json", "application/json; charset=utf-8", "application/json;charset=utf-16", "text/json", "",
    "application/JSON", "application/json, text/plain", "multipart/form-data; boundary=B", "application/x-www-form-urlencoded", "application/json\t;x",
)  # fmt: skip
_FORM_TYPES = (
    "multipart/form-data; boundary=B", "multipart/form-data; boundary=B", 'multipart/form-data; boundary="B"', "multipart/form-data; boundary=b",
    "multipart/form-data; boundary=B; boundary=C", "multipart/mixed; boundary=B", "multipart/form-data", "multipart/form-data; boundary=", "application/json",
)  # fmt: skip
_DISPOSITIONS = (
    'form-data; name="{}"', 'form-data; name="{}"', 'form-data; name="{}"', "form-data; name={}", 'form-data; name="{}"; filename="a.wav"', "form-data; name*=utf-8''{}",
    'form-data; name="x"; name="{}"', 'form-data; filename="{}"; name="x"', 'form-data; name="{}"; filename*=utf-8\'\'model', 'FORM-DATA; NAME="{}"', 'attachment; name="{}"',
    'form-data; name="x\\"; name="{}"', 'form-data;\r\n name="{}"', 'form-data; name="{}"\r\nContent-Disposition: form-data; name="x"',
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One request: its call, the headers about its body, and its bytes. `framing` says how its
    length is told.
    """

    call: str
    headers: tuple[str, ...]
    body: bytes
    framing: str


def variants(count: int, seed: int = 20261123) -> Iterator[Variant]:
    """`count` requests, among them some that are valid."""
    chance = random.Random(seed)  # noqa: S311 - the same variants each time are wanted
    for _ in range(count):
        is_form = chance.random() < 0.3
        body = _form(chance) if is_form else _json(chance)
        types = _FORM_TYPES if is_form else _CONTENT_TYPES
        headers = [f"Content-Type: {chance.choice(types if chance.random() < 0.5 else types[:2])}"]
        if chance.random() < 0.1:
            headers.append(
                chance.choice(
                    (
                        "Content-Encoding: gzip",
                        "Content-Encoding: identity",
                        "X-Model: mistral",
                        "Content-Type: text/plain",
                    )
                )
            )
        framing = chance.choices(
            ("length", "chunked", "both", "short", "two lengths"), (84, 6, 4, 3, 3)
        )[0]
        yield Variant(
            "audio/transcriptions" if is_form else "chat/completions", tuple(headers), body, framing
        )


def _json(chance: random.Random) -> bytes:
    def space() -> str:
        return chance.choice(_SPACES) if chance.random() < 0.06 else chance.choice(("", " "))

    members = [
        (chance.choice(_KEYS), chance.choice(_VALUES))
        for _ in range(chance.choice((0, 0, 1, 2, 3)))
    ]
    members.insert(
        chance.randint(0, len(members)), ("model", f'"{chance.choice((GOOD, GOOD, FOREIGN))}"')
    )
    if chance.random() < 0.1:
        depth = chance.choice((5, 60, 64, 65, 70, 3000))
        members.insert(
            chance.randint(0, len(members)),
            ("deep", "[" * depth + '{"model":"mistral"}' * (depth % 2) + "]" * depth),
        )
    text = ",".join(
        f'{space()}"{key}"{space()}:{space()}{value}{space()}' for key, value in members
    )
    text = f"{space()}{{{text}}}{space()}"
    if chance.random() < 0.15:
        text = chance.choice(
            (
                '{0}{{"model":"mistral"}}',
                "{0},",
                "[{0}]",
                "{0}}}",
                "\ufeff{0}",
                "{0}\n{0}",
                "{0}x",
                '"{0}"',
                "{0}]",
                "x={0}",
            )
        ).format(text)
    if chance.random() < 0.1:
        at = chance.randrange(len(text))
        text = (
            text[:at]
            + chance.choice(('"', "\\", "{", "}", "[", "]", ",", ":", "\x00", "\x7f", "\\u0022"))
            + text[at + chance.randint(0, 1) :]
        )
    return text.encode(chance.choice(("utf-8",) * 12 + ("utf-16", "utf-32", "utf-7")), "replace")


def _form(chance: random.Random) -> bytes:
    lines = []
    names = [
        chance.choice(("file", "x", "model", "Model", "language"))
        for _ in range(chance.choice((0, 1, 2)))
    ]
    names.insert(chance.randint(0, len(names)), "model")
    for name in names:
        disposition = chance.choice(
            _DISPOSITIONS if chance.random() < 0.4 else _DISPOSITIONS[:1]
        ).format(name)
        extra = chance.choice(
            (
                "",
                "",
                "",
                "Content-Type: text/plain\r\n",
                "Content-Transfer-Encoding: base64\r\n",
                "X-Other: 1\r\n",
                " folded\r\n",
            )
        )
        value = chance.choice(
            (
                GOOD,
                GOOD,
                GOOD,
                FOREIGN,
                "llama\r\n",
                "llama,mistral",
                "",
                "\x00",
                "--B--\r\n",
                "bGxhbWE=",
            )
        )
        end = chance.choice(("\r\n", "\r\n", "\r\n", "\r\n", "\n"))
        lines.append(f"--B{end}Content-Disposition: {disposition}{end}{extra}{end}{value}{end}")
    tail = chance.choice(("--B--\r\n", "--B--\r\n", "--B--", "--B\r\n", "", "--B--\r\n--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nmistral\r\n--B--\r\n"))  # fmt: skip
    return (chance.choice(("", "", "", "\r\n", "preamble\r\n")) + "".join(lines) + tail).encode()


def readings(body: bytes) -> set[object]:
    """The models that JSON parsers read from `body`, one that keeps the first of two keys and one
    that keeps the last; {None} if it is no JSON object.
    """
    result: set[object] = set()
    for keep in (dict, lambda pairs: dict(reversed(pairs))):
        try:
            document = json.loads(body, object_pairs_hook=keep)
        except (ValueError, RecursionError):
            return {None}
        result.add(json.dumps(document.get("model")) if isinstance(document, dict) else None)
    return result
