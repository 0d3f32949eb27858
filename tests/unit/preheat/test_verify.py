"""Checking caches anywhere by their READY files."""

from __future__ import annotations

import hashlib

import pytest

from inferplan.components.preheat.payload.manifest import Entry, Manifest
from inferplan.components.preheat.verify import caches, verify


@pytest.fixture
def cache(tmp_path):
    directory = tmp_path / "llama" / "0123456789-r0"
    directory.mkdir(parents=True)
    (directory / "config.json").write_bytes(b"{}")
    stamp = (directory / "config.json").stat().st_mtime_ns
    entry = Entry(
        path="config.json",
        size=2,
        sha256=hashlib.sha256(b"{}").hexdigest(),
        mtime_ns=stamp,
        evidence="md5",
        origin="o",
    )
    (directory / "READY").write_text(
        Manifest(content="c", source="s", revision=None, entries=(entry,)).dumps()
    )
    return directory


def test_caches_are_found_on_a_share_and_by_their_own_path(cache):
    assert caches(cache) == caches(cache.parent) == caches(cache.parent.parent) == [cache]


def test_a_good_cache_is_good(cache):
    verdict = verify(cache)
    assert verdict.good
    assert verdict.remedy is None


def test_a_bad_file_is_named_with_both_checksums_and_a_remedy(cache):
    (cache / "config.json").write_bytes(b"[]")
    verdict = verify(cache)
    assert not verdict.good
    assert str(verdict.differences[0]).startswith("config.json: expected sha256 44136fa3")
    assert verdict.remedy is not None
    assert "preheat.round" in verdict.remedy


def test_a_copy_that_a_preheat_took_back_is_seen_as_one(cache):
    (cache / "READY").rename(cache / "READY.damaged")
    verdict = verify(caches(cache)[0])
    assert verdict.problem is not None
    assert "found its files damaged" in verdict.problem


def test_a_damaged_ready_file_is_a_problem_and_no_traceback(cache):
    (cache / "READY").write_bytes(b"\xff\xfe")
    assert not verify(cache).good


@pytest.mark.parametrize("path", ["nothing", "."])
def test_a_path_without_caches_says_what_to_give(tmp_path, path):
    with pytest.raises(ValueError, match="Name a share"):
        caches(tmp_path / path)
