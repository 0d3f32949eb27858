"""Check the prose of the project against the word list in `prose.toml`; `make lint` runs it.

It reads Markdown without its code, and the comments, docstrings and string literals of Python
outside tests. A pattern may still occur as often in a folder as its `left` says: sentences that are
not reworded yet. Lower the number with every sentence.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORDS = Path(__file__).with_suffix(".toml")
ROOT = WORDS.parents[1]
_PYTHON = re.compile(
    r'(?P<prose>"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*)|(?P<code>[^"\'#]+)',
    re.DOTALL,
)
_MARKDOWN = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]*`)|(?P<prose>[^`]+|`)", re.DOTALL | re.MULTILINE
)
_PLACEHOLDER = re.compile(r"\{[^{}\n]*\}")


@dataclass(frozen=True)
class Use:
    """One use of a pattern: its file, line and text."""

    file: str
    line: int
    text: str


def prose(file: str, text: str) -> str:
    """The prose of `text`, with the same line breaks. A string without a space is a name, not
    prose.
    """
    grammar = _MARKDOWN if file.endswith(".md") else _PYTHON
    return _PLACEHOLDER.sub(
        "{}",
        grammar.sub(lambda part: part[0] if " " in (part["prose"] or "") else _blank(part), text),
    )


def _blank(part: re.Match[str]) -> str:
    return "\n" * part[0].count("\n") or " "


def uses(pattern: re.Pattern[str], file: str, text: str) -> Iterator[Use]:
    """Each use of `pattern` in the prose `text` of `file`."""
    for match in pattern.finditer(text):
        yield Use(file, text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()))


def check(root: Path, words: dict[str, Any]) -> list[str]:
    """The lines about patterns that occur more often in a folder than their `left` allows."""
    command = ["git", "ls-files", "-z", "*.py", "*.md"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    exempt = tuple(words["exempt"])
    files = [
        each
        for each in listed.split("\0")
        if each and not each.startswith(exempt) and (root / each).is_file()
    ]
    texts = {file: prose(file, (root / file).read_text(encoding="utf-8")) for file in files}
    lines: list[str] = []
    for entry in words["pattern"]:
        pattern = re.compile(entry["match"], re.IGNORECASE if entry.get("any_case", True) else 0)
        by_folder: dict[str, list[Use]] = defaultdict(list)
        for file, text in texts.items():
            by_folder[file.partition("/")[0]] += uses(pattern, file, text)
        for folder, matches in sorted(by_folder.items()):
            left = entry.get("left", {}).get(folder, 0)
            if len(matches) > left:
                lines += [
                    f"{use.file}:{use.line}: {use.text!r}: use {entry['use']}" for use in matches
                ]
                lines += [f"{folder}: {len(matches)} uses, {left} allowed"] if left else []
    return lines


if __name__ == "__main__":
    problems = check(ROOT, tomllib.loads(WORDS.read_text(encoding="utf-8")))
    print(
        "\n".join(problems)
        or "prose: no pattern of tests/prose.toml is used more often than allowed"
    )
    sys.exit(bool(problems))
