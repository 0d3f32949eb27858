"""What lies beside READY directories, and who removes it."""

from __future__ import annotations

import json

import pytest

from inferplan.components.preheat.payload.request import parse
from inferplan.components.preheat.payload.staging import Staging


@pytest.fixture
def staging(tmp_path):
    def make(generation="1-0a"):
        request = {
            "kind": "local",
            "root": "/m",
            "target": str(tmp_path),
            "directory": "m[1]/0123456789-r0",
            "job": "llama",
        }
        made = Staging(parse(json.dumps(request), "inference"), generation)
        made.make()
        return made

    return make


def begun(staging, path):
    (staging.files / path).write_bytes(b"?")
    staging.journal_path(path).write_bytes(b"how far")


def everything(staging):
    return {
        path.relative_to(staging.root).as_posix()
        for path in staging.root.rglob("*")
        if path.is_file()
    }


def test_nothing_is_left_once_a_directory_is_ready(staging):
    made = staging()
    (made.root / "removed-0a").mkdir()
    (made.root / "removed-0a" / "model.safetensors").write_bytes(b"?")
    made.tidy()
    assert not made.all_generations.exists()


def test_files_staged_for_another_round_stay(staging):
    made = staging()
    (made.files / "model.safetensors").write_bytes(b"?")
    made.tidy()
    assert (made.files / "model.safetensors").is_file()


def test_complete_files_move_to_the_next_holder_and_what_another_may_still_write_to_is_kept_apart(
    staging,
):
    old, new = staging(), staging("2-0b")
    (old.files / "whole.gguf").write_bytes(b"?")
    begun(old, "begun.gguf")
    old.record({"whole.gguf": "v1", "begun.gguf": "v1"})
    new.take_over(None)
    assert everything(new) == {
        "files/whole.gguf",
        "stale/begun.gguf",
        "stale-journal/begun.gguf",
        "listing.json",
    }
    assert new.origins() == {"whole.gguf": "v1", "begun.gguf": "v1"}
    assert not old.root.exists()


def test_what_a_holder_closed_before_it_gave_the_lock_back_is_gone_on_with(staging):
    old, new = staging(), staging("2-0b")
    begun(old, "begun.gguf")
    new.take_over("1-0a")
    assert everything(new) == {"files/begun.gguf", "journal/begun.gguf", "listing.json"}


def test_a_takeover_that_was_interrupted_is_finished_by_the_next(staging):
    old, new = staging(), staging("2-0b")
    for name in ("a.gguf", "b.gguf"):
        (old.files / name).write_bytes(b"?")
    (old.files).rename(old.root / "taken")
    new.record({"a.gguf": "v2"})
    (new.files / "a.gguf").write_bytes(b"newer")
    last = staging("3-0c")
    last.take_over(None)
    assert everything(last) == {"files/a.gguf", "files/b.gguf", "listing.json"}
    assert (last.files / "a.gguf").read_bytes() == b"newer"


def test_a_journal_has_a_name_that_a_file_system_takes_however_long_the_path_is(staging):
    made = staging()
    long = "/".join(["directory"] * 30) + "/model.gguf"
    names = {
        made.journal_path(path).name for path in (long, long.replace("model", "other"), "a/b.gguf")
    }
    assert len(names) == 3
    assert "a%2Fb.gguf" in names
    assert max(map(len, names)) <= 255
