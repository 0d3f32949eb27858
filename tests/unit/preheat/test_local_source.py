"""What a mounted directory is taken to hold: everything below it, or a refusal; nothing is left out in silence."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from components.preheat.payload.outcome import Exit, PreheatError
from components.preheat.payload.patience import Patience
from components.preheat.payload.rclone import Rclone
from components.preheat.payload.source import LocalSource

NOBODY = 65534


@pytest.fixture
def model():
    """A directory that every user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp()) / "model"
    (folder / "sub").mkdir(parents=True)
    folder.parent.chmod(0o755)
    (folder / "config.json").write_bytes(b"{}")
    (folder / "sub" / "model.gguf").write_bytes(b"weights")
    yield folder
    shutil.rmtree(folder.parent)


def listed(folder):
    rclone = Rclone({}, (), idle=1, patience=Patience(0, 0, threading.Event(), lambda _line: None))
    return {file.path: file.size for file in LocalSource(rclone, str(folder)).files()}


def refusal(folder):
    with pytest.raises(PreheatError) as caught:
        listed(folder)
    return caught.value


def test_links_to_files_and_directories_are_followed_as_rclone_follows_them(model):
    (model / "link.json").symlink_to("config.json")
    (model / "more").symlink_to("sub")
    assert listed(model) == {"config.json": 2, "link.json": 2, "more/model.gguf": 7, "sub/model.gguf": 7}


def test_a_link_to_nothing_is_refused_and_not_left_out(model):
    (model / "sub" / "model-2.gguf").symlink_to("../blobs/0a")
    found = refusal(model)
    assert (found.code, found.file, found.found) == (Exit.REFUSED, "sub/model-2.gguf", "../blobs/0a")


def test_a_link_that_leads_in_a_circle_is_refused(model):
    (model / "sub" / "again").symlink_to("..")
    assert refusal(model).file == "sub/again"


@pytest.mark.parametrize("closed", ["sub", "SHA256SUMS"])
def test_what_this_user_may_not_read_is_refused_and_not_left_out(model, closed):
    (model / "SHA256SUMS").write_text("")
    (model / closed).chmod(0)
    user = os.geteuid()
    if user == 0:
        # Nothing is closed to root, and the Job is not root.
        os.seteuid(NOBODY)
    try:
        found = refusal(model)
    finally:
        os.seteuid(user)
        (model / closed).chmod(0o755)
    assert (found.code, found.problem, found.found) == (Exit.SOURCE, "the source cannot be read", "Permission denied")
    assert found.file is not None
    assert found.file.endswith(closed)
