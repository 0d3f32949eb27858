"""The documentation that comes with the package: its pages, and the sections that have words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import inferplan

_HEADING = re.compile(r"^(#{1,6}) +(.+)$")
_FENCE = re.compile(r"^\s*(```|~~~)")
# Pages that list many keys and explain none.
_OF_PROGRAMS = ("architecture", "status", "supported")
_PACKAGE = Path(inferplan.__file__).parent


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page from one heading to the next. `page` is the file's path without suffix."""

    page: str
    title: str
    level: int
    text: str

    @property
    def address(self) -> str:
        """The argument of `inferplan docs` that prints the section."""
        return f"{self.page}#{anchor(self.title)}"


def anchor(title: str) -> str:
    """Return the anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def folder() -> Path:
    """The pages inside the installed package, or those of the checkout that is installed."""
    installed = _PACKAGE / "docs"
    return installed if installed.is_dir() else _PACKAGE.parent / "docs"


def pages() -> dict[str, Path]:
    """Every page by name, for example `gateway` or `runbooks/slow-answers`."""
    root = folder()
    return {
        path.relative_to(root).with_suffix("").as_posix(): path
        for path in sorted(root.rglob("*.md"))
    }


def sections(page: str, text: str) -> Iterator[Section]:
    title, level, lines, fenced = page, 0, list[str](), False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else _HEADING.match(line)
        if heading and any(each.strip() for each in lines):
            yield Section(page=page, title=title, level=level, text="\n".join(lines).strip())
            lines = []
        if heading:
            level, title = len(heading[1]), heading[2].strip()
        lines.append(line)
    yield Section(page=page, title=title, level=level, text="\n".join(lines).strip())


def _pattern(word: str) -> re.Pattern[str]:
    """Match the beginning of a word, also inside a key such as `drainSeconds`."""
    inside = re.escape(word[:1].upper() + word[1:])
    return re.compile(rf"(?i:(?<!\w){re.escape(word)})|(?<=[a-z]){inside}")


def search(words: Sequence[str]) -> list[Section]:
    """Return the sections that have every one of `words` (beginnings of words count, case does
    not), the best first: words in headings before words in text, and many before few.
    """
    patterns = [_pattern(each) for each in words]
    scored = []
    for name, path in pages().items():
        for each in sections(name, path.read_text(encoding="utf-8")):
            counts = [
                len(pattern.findall(f"{name} {each.title}\n{each.text}")) for pattern in patterns
            ]
            if all(counts):
                in_title = sum(bool(pattern.search(f"{name} {each.title}")) for pattern in patterns)
                # Decisions say why; a person who searches wants to know how.
                weight = 0.2 if name.startswith("decisions/") else 1.0
                density = sum(min(count, 5) for count in counts) / (1 + len(each.text) / 2_000)
                scored.append((-weight * (10 * in_title + density), len(scored), each))
    return [each for *_, each in sorted(scored)]


def about(key: str) -> Section | None:
    """Return the section that writes most about a key of stack files: in code, with its parents
    first.
    """
    *parents, last = key.split(".")
    written = re.compile(
        rf"`(?:\w+[.:])*{re.escape(last)}`|\b{re.escape(last)}:(?=[ \n])|[.:]{re.escape(last)}\b"
    )
    best, most = None, 0.0
    for name, path in pages().items():
        if name in _OF_PROGRAMS or name.startswith(("decisions/", "runbooks/")):
            continue
        for each in sections(name, path.read_text(encoding="utf-8")):
            near = 1 + sum(parent in each.text for parent in parents)
            score = near * len(written.findall(each.text)) / (1 + len(each.text) / 4_000)
            if score > most:
                best, most = each, score
    return best
