"""`inferplan docs [WORD...]`: the documentation that comes with the package."""

import sys
from typing import Annotated

import typer
from rich.markdown import Markdown

from inferplan.commands.docs.messages import messages
from inferplan.commands.pages import Section, anchor, pages, search, sections
from inferplan.commands.screen import results, show, table
from inferplan.errors import RequestError
from inferplan.stackfile.reference import reference

REFERENCE = "reference"
"""The page that is made from the specifications."""
_MOST = 12


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAGE|WORD...]",
            show_default=False,
            help="A page such as gateway, a section such as gateway#configuration, words to search for, or a message in quotes.",
        ),
    ] = None,
) -> None:
    """Print a page of the documentation, or list the sections that have all WORDs; without an
    argument, list the pages. A message that was printed is answered with its cause and remedy.
    """
    by_name = pages()
    if not words:
        rows = [
            (name, next(sections(name, path.read_text(encoding="utf-8"))).title)
            for name, path in by_name.items()
        ]
        rows.append((REFERENCE, "Reference of stack files"))
        results().print(table("documentation", "page", "title", rows=rows))
        show("Print one with: inferplan docs PAGE. Search with: inferplan docs WORD WORD")
        return
    name, _, heading = " ".join(words).removeprefix("docs/").partition("#")
    name = name.removesuffix(".md")
    if name in (REFERENCE, *by_name):
        text = reference() if name == REFERENCE else by_name[name].read_text(encoding="utf-8")
        _print(_section(name, text, heading) if heading else text)
        return
    if rows := [each for each in messages() if each.is_in(" ".join(words))]:
        for each in rows:
            _print(f"**{', '.join(each.texts)}**\n\n{each.cause} {each.remedy}")
            show(f"More: inferplan docs {each.page}")
        return
    matches = search(words)
    if not matches:
        raise RequestError(
            f"No page contains all of {' '.join(words)!r}. Search for fewer words, or list the pages with:"
            " inferplan docs"
        )
    rows = [(each.address, each.title, _line(each, words)) for each in matches[:_MOST]]
    results().print(table(" ".join(words), "section", "title", "text", rows=rows))
    more = len(matches) - _MOST
    show((f"and {more} more; add a word. " if more > 0 else "") + f"Print one with: inferplan docs {matches[0].address}")  # fmt: skip


def _section(name: str, text: str, heading: str) -> str:
    """Return the section with the heading, and those below it."""
    all_of_page = list(sections(name, text))
    start = next(
        (index for index, each in enumerate(all_of_page) if anchor(each.title) == anchor(heading)), None
    )  # fmt: skip
    if start is None:
        titles = ", ".join(anchor(each.title) for each in all_of_page)
        raise RequestError(f"{name} has no section {heading!r}. Sections: {titles}")
    level = all_of_page[start].level
    end = next(
        (
            index
            for index in range(start + 1, len(all_of_page))
            if all_of_page[index].level <= level
        ),
        len(all_of_page),
    )
    return "\n\n".join(each.text for each in all_of_page[start:end])


def _line(section: Section, words: list[str]) -> str:
    """Return the first line of text with one of the words."""
    for line in section.text.splitlines()[1:]:
        if any(each.lower() in line.lower() for each in words):
            return line.strip(" |")[:80]
    return ""


def _print(text: str) -> None:
    if sys.stdout.isatty():
        results().print(Markdown(text))
    else:
        sys.stdout.write(text.rstrip() + "\n")
