"""The shell blocks of docs/tutorials, with the marks in the comments before them, which say what a
block needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
MARKS = {
    "": "runs as it is",
    "exit 1": "runs, and ends with code 1",
    "exit 3": "runs, and ends with code 3",
    "network": "downloads from the internet",
    "update": "changes a real cluster with the Pulumi CLI",
    "traffic": "calls models that really run",
    "account": "asks AWS, and ends with the code that fits the account",
    "aws": "calls AWS through its CLI",
}
_BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*) -->\n)?```console\n(?P<text>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Commands that a reader pastes together."""

    mark: str
    commands: tuple[str, ...]

    @property
    def script(self) -> str:
        """The commands as a shell script that ends at the first failure."""
        return "\n".join(["set -eo pipefail", *self.commands])


def blocks(name: str) -> Iterator[Block]:
    """The blocks of the tutorial `name`, in order."""
    text = (TUTORIALS / name).read_text()
    for each in _BLOCK.finditer(text):
        commands = re.split(r"^\$ ", each["text"], flags=re.MULTILINE)[1:]
        yield Block(each["mark"] or "", tuple(command.rstrip() for command in commands))
