"""Takes the pictures of the docs: the comment and the page of a report, as a browser shows them.

Run as `python -m tests.review.screenshots REPORT.md REPORT.html`, with the files of a real
`inferplan report`. The comment is laid out by a Markdown library in a style like a code host's,
which is near to what such a host shows and not the same.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt

from tests.review.test_browser import browser

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 1rem auto; padding: 1rem 1.5rem; border: 1px solid #d1d9e0; border-radius: 6px; color: #1f2328 }
h2 { border-bottom: 1px solid #d1d9e0; padding-bottom: .3rem; font-size: 1.3rem } h3 { font-size: 1.05rem }
table { border-collapse: collapse } td, th { border: 1px solid #d1d9e0; padding: .3rem .7rem; text-align: left }
code { background: #818b981f; padding: .1em .35em; border-radius: 5px; font-size: 85% } sub { color: #59636e; vertical-align: baseline; font-size: 85% }
"""


def to_html(markdown: str) -> str:
    """`markdown` as HTML, tables and inline HTML allowed, as on a code host."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def main(markdown: Path, page: Path) -> None:
    """Writes the two pictures."""
    with tempfile.TemporaryDirectory() as folder:
        comment = Path(folder) / "comment.html"
        comment.write_text(
            "<!doctype html><meta"
            f" charset=utf-8><style>{_STYLE}</style>{to_html(markdown.read_text())}",
            encoding="utf-8",
        )
        for name, source, height in (("comment", comment, 1500), ("report", page.absolute(), 1100)):
            target = IMAGES / f"pull-request-{name}.png"
            browser(
                "--hide-scrollbars",
                f"--window-size=1000,{height}",
                f"--screenshot={target}",
                source.as_uri(),
                profile=Path(folder) / "profile",
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
