"""What lies beside READY directories, and who removes it."""

from __future__ import annotations

import json

import pytest

from components.preheat.payload.request import parse
from components.preheat.payload.staging import Staging


@pytest.fixture
def staging(tmp_path):
    request = {"kind": "local", "root": "/m", "target": str(tmp_path), "directory": "m[1]/0123456789-r0", "job": "llama"}
    return Staging(parse(json.dumps(request), "inference"))


def left(directory, *names):
    for name in names:
        (directory / name).mkdir(parents=True)
        (directory / name / "model.safetensors").write_bytes(b"?")


def test_what_a_killed_run_left_of_removed_rounds_goes_once_a_directory_is_ready(staging, tmp_path):
    trash = tmp_path / ".inferplan" / "trash"
    left(trash, "m[1].0123456789.0a", "other.0123456789.0a")
    left(staging.root, "incoming-0a")
    staging.tidy()
    assert [path.name for path in trash.iterdir()] == ["other.0123456789.0a"]
    assert not staging.root.exists()


def test_files_staged_for_another_round_stay(staging):
    staging.prepare()
    (staging.files / "model.safetensors").write_bytes(b"?")
    staging.tidy()
    assert (staging.files / "model.safetensors").is_file()


def test_a_journal_has_a_name_that_a_file_system_takes_however_long_the_path_is(staging):
    long = "/".join(["directory"] * 30) + "/model.gguf"
    names = {staging.journal_path(path).name for path in (long, long.replace("model", "other"), "a/b.gguf")}
    assert len(names) == 3
    assert "a%2Fb.gguf" in names
    assert max(map(len, names)) <= 255
