"""The table of what is supported, what is not, and what to write instead (`support.toml`)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from inferplan.documents.errors import suggestion
from inferplan.tables import table

GROUPS = ("engines", "formats", "features", "accelerators", "clouds", "stores", "gateway")
_PUNCTUATION = re.compile(r"[^a-z0-9]")


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A row of the table. `words`, `values` and `keys` are the names by which people ask for it."""

    topic: str
    group: str
    status: Literal["supported", "instead", "not"]
    reason: str
    since: str = ""
    words: str = ""
    fields: Sequence[str] = ()
    values: str = ""
    keys: Sequence[str] = ()

    @property
    def answer(self) -> str:
        """Supported since when, in another way, or not."""
        ways = {"supported": f"supported since {self.since}", "instead": "supported in another way"}
        return ways.get(self.status, "not supported")

    def is_called(self, word: str) -> bool:
        folded = _PUNCTUATION.sub("", word.lower())
        patterns = [each for each in (self.words, self.values) if each]
        return (
            any(re.fullmatch(each, word, re.IGNORECASE) for each in patterns)
            or folded == _PUNCTUATION.sub("", self.topic.lower())
            or any(folded == each.rpartition(".")[2].lower() for each in self.keys)
        )


def topics() -> Iterator[Topic]:
    yield from (Topic(**row) for row in table("stackfile/support.toml")["rows"])


def about(word: str) -> list[Topic]:
    """Return the rows about `word`, those by its own name first; none if no row knows it."""
    word = word.strip()
    rows = [each for each in topics() if each.is_called(word)]
    by_words = [
        each for each in rows if each.words and re.fullmatch(each.words, word, re.IGNORECASE)
    ]
    return by_words or rows


def near(word: str) -> str:
    """Return the sentence with the name in the table that `word` probably means."""
    names = {
        name for each in topics() for name in re.findall(r"[A-Za-z][A-Za-z0-9-]{2,}", each.topic)
    }
    return suggestion(word, names)


def page() -> str:
    """Return docs/supported.md."""
    lines = [
        "# Supported, not supported, and what to write instead",
        "",
        "`inferplan explain WORD` finds the row of a word, for example `inferplan explain aks`. Errors of stack files give the same answers.",
    ]
    for group in GROUPS:
        lines += [
            "",
            f"## {group.capitalize()}",
            "",
            "| topic | supported | how, or what instead |",
            "|---|---|---|",
        ]
        rows = [each for each in topics() if each.group == group]
        for each in sorted(rows, key=lambda row: row.status != "supported"):
            state = {"supported": f"since {each.since}", "instead": "another way"}.get(
                each.status, "no"
            )
            reason = each.reason.replace("|", "\\|")
            lines.append(f"| {each.topic} | {state} | {reason} |")
    return "\n".join(lines) + "\n"
