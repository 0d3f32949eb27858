"""What a mounted directory is taken to hold: everything below it, or a refusal; nothing is left out
in silence.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from inferplan.components.preheat.payload.directory import Directory, LocalSource
from inferplan.components.preheat.payload.errors import Exit, PreheatError, Retries
from inferplan.components.preheat.payload.rclone import Rclone

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


def listed(folder, mount=""):
    return {file.path: file.size for file in LocalSource(str(folder), str(mount)).files()}


def refusal(folder, mount=""):
    with pytest.raises(PreheatError) as caught:
        listed(folder, mount)
    return caught.value


def test_links_to_files_and_directories_are_followed(model):
    (model / "link.json").symlink_to("config.json")
    (model / "more").symlink_to("sub")
    assert listed(model) == {
        "config.json": 2,
        "link.json": 2,
        "more/model.gguf": 7,
        "sub/model.gguf": 7,
    }


def test_a_link_to_nothing_is_refused_and_not_left_out(model):
    (model / "sub" / "model-2.gguf").symlink_to("../blobs/0a")
    found = refusal(model)
    assert (found.code, found.file, found.found) == (
        Exit.REFUSED,
        "sub/model-2.gguf",
        "../blobs/0a",
    )


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
    assert (found.code, found.problem, found.found) == (
        Exit.SOURCE,
        "the source cannot be read",
        "Permission denied",
    )
    assert found.file is not None
    assert found.file.endswith(closed)


def test_links_that_lead_to_each_other_end_at_once_with_the_link_named(model):
    for name in ("a", "b"):
        (model / name).mkdir()
    (model / "a" / "x").symlink_to("../b")
    (model / "b" / "y").symlink_to("../a")
    assert refusal(model).file in ("a/x/y", "b/y/x")


def test_a_link_to_itself_is_refused(model):
    (model / "me").symlink_to("me")
    assert (refusal(model).file, refusal(model).code) == ("me", Exit.REFUSED)


@pytest.mark.parametrize("what", ["fifo", "link to a device", "link to a fifo"])
def test_what_is_no_file_is_refused_and_not_left_out(model, what):
    if what != "link to a device":
        os.mkfifo(model / "odd" if what == "fifo" else model.parent / "pipe")
    if what != "fifo":
        (model / "odd").symlink_to("/dev/zero" if what == "link to a device" else "../pipe")
    assert (refusal(model).file, refusal(model).code) == ("odd", Exit.REFUSED)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_link_out_of_the_store_is_refused(model, kind):
    (model / "out").symlink_to("/etc/passwd" if kind == "file" else "/etc")
    found = refusal(model, model.parent)
    assert (found.code, found.file) == (Exit.REFUSED, "out")
    assert "out of the store" in found.problem


def test_a_link_to_a_blob_elsewhere_in_the_store_is_followed(model):
    (model.parent / "blobs").mkdir()
    (model.parent / "blobs" / "0a").write_bytes(b"weights")
    (model / "model-2.gguf").symlink_to("../blobs/0a")
    assert listed(model, model.parent)["model-2.gguf"] == 7


def test_a_batch_of_names_larger_than_a_pipe_reaches_an_rclone_that_starts_slowly(
    tmp_path, monkeypatch
):
    shim = tmp_path / "rclone"
    shim.write_text("#!/bin/sh\nsleep 0.4\nwc -l >&2\nexit 1\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    rclone = Rclone({}, (), idle=1, retries=Retries(0, 0, threading.Event(), lambda _line: None))
    names = [f"part-{number:04}/file-{number:06}.json" for number in range(5000)]
    # A program that waits for names that never come is killed after ten looks.
    looks = iter([True] * 10)
    assert (
        rclone.copy("/source", names, tmp_path, streams=1, alive=lambda: next(looks, False))
        == "5000"
    )


@pytest.mark.parametrize("swap", ["link", "folder", "fifo"])
@pytest.mark.parametrize("way", ["read", "stream", "copy", "sha256s"])
def test_a_file_that_is_swapped_after_it_was_listed_gives_no_byte_from_outside(
    model, tmp_path, swap, way
):
    (tmp_path / "model.gguf").write_bytes(b"secret!")
    source = LocalSource(str(model), str(model.parent))
    source.files()
    shutil.rmtree(model / "sub")
    if swap == "folder":
        (model / "sub").symlink_to(tmp_path)
    else:
        (model / "sub").mkdir()
        at = model / "sub" / "model.gguf"
        at.symlink_to(tmp_path / at.name) if swap == "link" else os.mkfifo(at)
    location, directory = source.location("sub/model.gguf"), Directory(model.parent)
    names = {"streams": 1, "alive": lambda: True}
    ways = {
        "read": lambda: directory.read(location),
        "stream": lambda: directory.stream(location, 0, 7),
        "copy": lambda: directory.copy(str(model), ["sub/model.gguf"], tmp_path / "into", **names),
        "sha256s": lambda: directory.sha256s(str(model), ["sub/model.gguf"], **names),
    }
    with pytest.raises(PreheatError, match="out of the store"):
        ways[way]()


def test_a_link_inside_of_the_store_is_read(model, tmp_path):
    (model / "link").symlink_to("sub/model.gguf")
    directory = Directory(model.parent)
    assert directory.read(str(model / "link")) == b"weights"
    with directory.stream(str(model / "link"), 2, 3) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"igh"
    names = {"streams": 2, "alive": lambda: True}
    assert directory.copy(str(model), ["link", "gone"], tmp_path, **names).startswith("gone: No")
    assert (tmp_path / "link").read_bytes() == b"weights"
    assert set(directory.sha256s(str(model), ["link", "gone"], **names)) == {"link"}
