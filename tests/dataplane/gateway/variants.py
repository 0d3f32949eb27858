"""Ways to spell a path so that a careless proxy and its backend disagree about it; deterministic
for a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

MODELS = ("llama", "mistral")
TARGETS = (
    "/v1/chat/completions",
    "/v1/models",
    "/v1/load_lora_adapter",
    "/v1/chat/completions/render",
    "/v1/responses/resp_1",
    "/metrics",
    "/health",
    "/invocations",
    "/sleep",
    "/inference/v1/generate",
)
_SLASHES = (
    "/",
    "//",
    "///",
    "%2f",
    "%2F",
    "%252f",
    "\\",
    "%5c",
    "/./",
    "/%2e/",
    "/x/../",
    "/x/%2e%2e/",
    "/..;/",
    ";/",
    "/;a=b/",
    "/%00/",
)
_TAILS = (
    "",
    "/",
    "//",
    ".",
    "..",
    "/.",
    "/..",
    "%20",
    "%09",
    "%0a",
    "%0d%0a",
    "%00",
    ";",
    ";a=b",
    "?x=1",
    "#x",
    "?",
    "%3f",
    "%23",
    "~",
    "*",
    "%",
    "%zz",
)
_HEADS = (
    "",
    "/",
    "/.",
    "/..",
    "http://llama",
    "http://127.0.0.1",
    "//llama",
    "/mistral/..",
    "/llama/../mistral/..",
    "/%6clama/..",
)


def variants(count: int, seed: int = 20261121) -> Iterator[str]:
    """`count` distinct request targets."""
    chance = random.Random(seed)  # noqa: S311 - the same variants each time are wanted
    known: set[str] = set()
    while len(known) < count:
        made = _variant(chance)
        if made not in known:
            known.add(made)
            yield made


def _variant(chance: random.Random) -> str:
    # Some are bent in one place, so that they still mean what is listed, others in many.
    density = chance.choice((0.1, 0.4, 1.0))
    target = chance.choice(TARGETS[:2] if chance.random() < 0.5 else TARGETS[2:])
    parts = [chance.choice(MODELS), *target.strip("/").split("/")]
    text = chance.choice(_HEADS) if chance.random() < density else ""
    for part in parts:
        text += chance.choice(_SLASHES) if chance.random() < density / 2 else "/"
        text += _spelled(part, chance) if chance.random() < density else part
    if chance.random() < density / 3:
        text += f"/..{chance.choice(_SLASHES)}{_spelled(parts[-1], chance)}"
    if chance.random() < density / 3:
        text += "/../" * chance.randint(1, 6) + chance.choice(TARGETS).strip("/")
    return text + (chance.choice(_TAILS) if chance.random() < density else "")


def _spelled(part: str, chance: random.Random) -> str:
    way = chance.random()
    if way < 0.2:
        return part.upper() if chance.random() < 0.5 else part.title()
    at = chance.randrange(len(part))
    if way < 0.7:
        return part[:at] + f"%{ord(part[at]):02x}" + part[at + 1 :]
    if way < 0.8:
        return part[:at] + f"%25{ord(part[at]):02x}" + part[at + 1 :]
    return (
        part[:at]
        + chance.choice(["%c0%af", "\u00e9", "%ef%bc%8f", "%u002f", " ", "\t", ".", "%2e"])
        + part[at:]
    )


_GOOD = "Authorization: Bearer {good}"
HEADER_TRICKS: tuple[tuple[str, ...], ...] = (
    (_GOOD, _GOOD),
    (_GOOD, "Authorization: Bearer {other}"),
    ("Authorization: Bearer {other}", _GOOD),
    (_GOOD, "X-API-Key: {other}"),
    ("X-API-Key: {good}", "X-API-Key: {other}"),
    ("X-API-Key: {other}", "X-API-Key: {good}"),
    ("Authorization : Bearer {good}",),
    (" Authorization: Bearer {good}",),
    ("Authorization: Bearer\t{good}",),
    ("Authorization:\tBearer {good}",),
    ("Authorization: Bearer {good}\x00",),
    ("Authorization: Bearer {good}|{other}",),
    ("Authorization: |{good}",),
    ("X_API_KEY: {good}",),
    (_GOOD, "X-Consumer: batch", "X_Consumer: batch"),
    (_GOOD, "X-Original-URL: /mistral/v1/models", "X-Rewrite-URL: /metrics"),
    (_GOOD, "X-HTTP-Method-Override: DELETE"),
    (_GOOD, "X-Forwarded-Prefix: /mistral"),
    (_GOOD, "Host: mistral"),
    (_GOOD, "Content-Length: 0", "Content-Length: 5"),
    (_GOOD, "Content-Length: 4", "Transfer-Encoding: chunked"),
    (_GOOD, "Transfer-Encoding: chunked, identity"),
    (_GOOD, "Transfer-Encoding: xchunked"),
    (_GOOD, "Connection: X-Consumer, Authorization"),
    (_GOOD, "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    (_GOOD, "Expect: 100-continue"),
)
"""Header lines that conflict, repeat or hide; `{good}` may call llama alone, `{other}` mistral
alone.
"""
