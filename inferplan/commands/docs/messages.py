"""The messages of docs/troubleshooting.md, each with the page that helps."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from inferplan.commands.pages import folder

PAGE = "troubleshooting"
_ROW = re.compile(r"^\| (`.+?`) \| (.+?) \| (.+\((.+?)\)) \|$", re.MULTILINE)
_QUOTED = re.compile(r"`(.+?)`")
_MOST_PAGES = 3


@dataclass(frozen=True, kw_only=True)
class Message:
    """A row of the page. `texts` are parts of messages, with … for what differs; `page` is an
    argument of `inferplan docs`.
    """

    texts: tuple[str, ...]
    cause: str
    remedy: str
    page: str

    def is_in(self, printed: str) -> bool:
        """True if `printed` has one of the texts, wherever its lines break."""
        words = " ".join(printed.split())
        return any(re.search(_pattern(each), words) for each in self.texts)


def messages() -> Iterator[Message]:
    text = (folder() / f"{PAGE}.md").read_text(encoding="utf-8")
    for quoted, cause, remedy, link in _ROW.findall(text):
        yield Message(
            texts=tuple(_QUOTED.findall(quoted)),
            cause=cause,
            remedy=remedy,
            page=link.replace(".md", ""),
        )


def further_pages(printed: str) -> str:
    """Return the line that names the pages for `printed`; "" without one, or if the text names a
    page itself.
    """
    if "inferplan docs" in printed:
        return ""
    found = dict.fromkeys(each.page for each in messages() if each.is_in(printed))
    return "".join(f"\nMore: inferplan docs {page}" for page in list(found)[:_MOST_PAGES])


def _pattern(text: str) -> str:
    return ".+?".join(re.escape(each.strip()) for each in text.split("…") if each.strip()).replace(
        ".+?", " ?.+? ?"
    )
