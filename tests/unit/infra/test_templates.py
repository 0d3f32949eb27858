"""Templates are compiled once; a cache that is read-only, damaged or not a directory changes no
text.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplan.documents.templates import template


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.setenv("INFERPLAN_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "templates"
    template.cache_clear()


def load() -> None:
    template.cache_clear()
    assert template("components/gateway/payload/nginx.conf.j2").name == "nginx.conf.j2"


def test_a_second_run_compiles_nothing(cache, monkeypatch):
    load()
    assert [each for each in cache.iterdir() if each.stat().st_size]
    monkeypatch.setattr("jinja2.Environment.compile", None)  # a call would fail
    load()


@pytest.mark.parametrize("damage", [b"", b"j2", b"\0" * 100])
def test_a_damaged_file_is_compiled_again(cache, damage):
    load()
    for each in cache.iterdir():
        each.write_bytes(damage)
    load()


def test_a_cache_that_is_no_directory_keeps_nothing(cache):
    cache.parent.mkdir()
    cache.write_text("a file of somebody else")
    load()
    assert cache.read_text() == "a file of somebody else"
