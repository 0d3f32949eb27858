"""The recordings of terminals on the pages show what the commands print."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE

ROOT = Path(__file__).resolve().parents[3]


def _lines(svg: str) -> list[str]:
    # The names of Jobs have a digest of their program.
    texts = re.findall(r">([^<]+)</text>", svg)
    return [re.sub(r"-[0-9a-f]{10}\b", "-DIGEST", each) for each in texts]


@pytest.mark.slow
def test_make_pictures_writes_the_recordings_that_the_pages_show(tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", EXAMPLE_PASSPHRASE)
    spec = importlib.util.spec_from_file_location("pictures", ROOT / ".ci" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    pages = "".join(each.read_text() for each in (ROOT / "docs").glob("*.md"))
    made = pictures.terminals(tmp_path)
    assert len(made) > 1
    for name, svg in made.items():
        shown = (ROOT / "docs" / "images" / f"terminal-{name}.svg").read_text()
        assert _lines(shown) == _lines(svg), f"{name} is outdated: make pictures"
        assert not re.search(r"(?:url\(|href=.)https?:", svg)
        assert f"(images/terminal-{name}.svg)" in pages
