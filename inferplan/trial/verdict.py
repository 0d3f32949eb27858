"""The findings of a trial, and the sentence in an engine's log that is its cause."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Path = tuple[str | int, ...]
State = Literal["works", "rejected", "not judged"]
# The step that inferplan judges itself.
WEIGHTS = "weights"
# An exception as Python prints it, behind the prefixes of an engine's log.
_RAISED = re.compile(
    r"^(?:\([^)]*\)\s*)?(?:\w+ [0-9]{2}-[0-9]{2} [0-9:]+ \[[^]]*\]\s*)?(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Exit|NotSupported))(?:: (?P<message>.*))?$"
)
_USAGE = re.compile(r"^.*?\b(?P<message>error: .+)$")
# These repeat that another process has failed.
_WRAPPERS = (
    "See root cause above",
    "Engine core initialization failed",
    "CancelledError",
    "died unexpectedly",
    "EngineDeadError",
)
_LONGEST = 600
# A sentence is about a setting if it has this many letters of its name.
_LEAST = 5


@dataclass(frozen=True)
class Finding:
    """One step of a trial: its `state`, the engine's sentence, and the path of the setting in the
    stack file that it is about, () if it names none.
    """

    step: str
    state: State
    sentence: str = ""
    path: Path = ()


def sentence_of(log: str) -> str:
    """The sentence of the first cause in the log of an engine that ended."""
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if match := _RAISED.match(line.strip()):
            text = f"{match['kind'].rpartition('.')[2]}: {match['message'] or ''}".rstrip(": ")
            if any(each in line for each in _WRAPPERS):
                continue
            if "validation error" in text:
                text = validation_text("\n".join(lines[number : number + 20]))
            return shortened(text)
    for number, line in enumerate(lines):
        if match := _USAGE.match(line):
            text = match["message"].removeprefix("error: ")
            if "validation error" in text:
                text = f"{text}: {validation_text(chr(10).join(lines[number + 1 : number + 20]))}"
            return shortened(text)
    return shortened(next((line for line in reversed(lines) if line.strip()), "it printed nothing"))


def validation_text(text: str) -> str:
    """The messages in pydantic's text of a validation error, without its inputs."""
    found = re.findall(
        r"^(?:\([^)]*\)\s*)?\s+(?:\w+ error, )?(.+?) \[type=", text, re.MULTILINE | re.DOTALL
    )
    return " ".join(" ".join(each.split()) for each in found) or text


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def path_of(sentence: str, settings: Mapping[Path, Iterable[str]]) -> Path:
    """The setting that `sentence` is about: the one with most of its names and values in it, ()
    if none has enough. A name that stands there as a whole counts twice.
    """
    spoken = _words(sentence)
    best: tuple[int, Path] = (_LEAST, ())
    for path, names in settings.items():
        for name in names:
            own = _words(name)
            same = sum(len(word) for word in own if any(each.startswith(word) for each in spoken))
            score = same * (2 if " ".join(own) in " ".join(spoken) else 1)
            if score > best[0]:
                best = (score, path)
    return best[1]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
