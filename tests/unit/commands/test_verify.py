from __future__ import annotations

import pytest

from inferplan.commands.main import run
from inferplan.components.preheat.payload.manifest import READY, Manifest


def verify(capsys, *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run(["verify", *arguments])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out + captured.err


def test_a_directory_without_caches_is_rejected_with_what_to_give(capsys, tmp_path):
    code, words = verify(capsys, str(tmp_path))
    assert code == 2
    assert f"no {READY} file" in words


def test_a_directory_that_is_not_there_is_named(capsys, tmp_path):
    code, words = verify(capsys, str(tmp_path / "nowhere"))
    assert code == 2
    assert "nowhere is not a directory" in words


def test_an_unreadable_manifest_is_bad_and_has_a_remedy(capsys, tmp_path):
    (tmp_path / READY).write_text("not a manifest")
    code, words = verify(capsys, str(tmp_path))
    assert code == 1
    assert words.startswith("bad")
    assert "raise preheat.round" in words


def test_each_directory_is_judged_as_soon_as_it_was_read_and_one_bad_one_decides_the_exit_code(
    capsys, tmp_path
):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / READY).write_text(
            Manifest(content="c", source="s", revision=None, entries=()).dumps()
        )
    (tmp_path / "b" / "stray").write_text("?")
    code, words = verify(capsys, str(tmp_path))
    assert code == 1
    assert words.splitlines()[0] == f"ok   {tmp_path}/a: 0 files, 0 B as published"
    assert "stray: expected no such file, found 1 bytes" in words
