"""Links in the directory of a model: the container opens the same files, and sees nothing else of this
computer.
"""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from inferplan.errors import RequestError
from inferplan.trial.mounts import read_only_mounts


@pytest.fixture
def weights(tmp_path):
    directory = tmp_path / "host" / "weights"
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("config")
    return directory


def mounts(directory: Path) -> dict[Path, Path]:
    """The targets of the mounts, each with its source."""
    targets = {}
    for option in read_only_mounts([directory]):
        kind, source, target, mode = option.removeprefix("--mount=").split(",")
        assert (kind, mode) == ("type=bind", "readonly")
        targets[Path(target.removeprefix("target="))] = Path(source.removeprefix("source="))
    return targets


def text_inside(directory: Path, name: str, root: Path) -> str:
    """The text of the file `name` of the directory, for a program whose root directory has the mounts
    alone.
    """
    for target, source in mounts(directory).items():
        place = root / target.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True)
        else:
            shutil.copyfile(source, place)
    place, parts = root, [*directory.parts[1:], name]
    while parts:
        part = parts.pop(0)
        if part == "..":
            place = place.parent
        elif (place / part).is_symlink():
            target = (place / part).readlink()
            place = root if target.is_absolute() else place
            parts = [*(each for each in target.parts if each != "/"), *parts]
        else:
            place = place / part
    return place.read_text()


def test_a_linked_file_is_mounted_and_not_its_directory(weights, tmp_path):
    secrets = tmp_path / "host" / "etc"
    secrets.mkdir()
    (secrets / "shadow").write_text("secret")
    (secrets / "tokenizer.json").write_text("tokenizer")
    (weights / "tokenizer.json").symlink_to(secrets / "tokenizer.json")
    file = secrets / "tokenizer.json"
    assert mounts(weights) == {weights: weights, file: file}
    assert text_inside(weights, "tokenizer.json", tmp_path / "root") == "tokenizer"


def test_a_snapshot_of_the_hugging_face_cache_opens_its_blobs(tmp_path):
    repository = tmp_path / "hub" / "models--acme--chat"
    snapshot = repository / "snapshots" / "1f2e"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "abc").write_text("weights")
    (repository / "blobs" / "other").write_text("of another revision")
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    assert text_inside(snapshot, "model.safetensors", tmp_path / "root") == "weights"
    assert set(mounts(snapshot)) == {snapshot, repository / "blobs" / "abc"}


def test_chains_of_links_end_at_their_file(weights, tmp_path):
    outside = tmp_path / "host" / "store"
    outside.mkdir()
    (outside / "1").write_text("blob")
    (outside / "latest").symlink_to("1")
    (weights / "v1").mkdir()
    (weights / "v1" / "model.st").write_text("v1")
    (weights / "v1" / "blob.st").symlink_to("../../store/latest")
    (weights / "current").symlink_to("v1")
    (weights / "model.st").symlink_to("current/model.st")
    (weights / "blob.st").symlink_to("current/blob.st")
    assert text_inside(weights, "model.st", tmp_path / "one") == "v1"
    assert text_inside(weights, "blob.st", tmp_path / "two") == "blob"


def test_another_spelling_of_the_directory_is_mounted(weights, tmp_path):
    (tmp_path / "alias").symlink_to(tmp_path / "host")
    (weights / "copy.json").symlink_to(tmp_path / "alias" / "weights" / "config.json")
    assert text_inside(weights, "copy.json", tmp_path / "root") == "config"


@pytest.mark.parametrize("target", ["..", "/", "../store", "../store/socket", "/dev/null"])
def test_a_link_to_more_than_a_file_is_rejected(weights, tmp_path, target, monkeypatch):
    outside = tmp_path / "host" / "store"
    outside.mkdir()
    monkeypatch.chdir(outside)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (weights / "link").symlink_to(target)
    with pytest.raises(RequestError) as raised:
        read_only_mounts([weights])
    assert f"--weights: the link {weights / 'link'} leads to /" in str(raised.value)
    assert f"Allowed: links to files, and to directories inside {weights}." in str(raised.value)


def test_a_parent_of_a_linked_directory_is_rejected(weights):
    (weights / "deep" / "v1").mkdir(parents=True)
    (weights / "deep" / "model.st").write_text("model")
    (weights / "v1").symlink_to("deep/v1")
    (weights / "other.st").symlink_to("v1/../model.st")
    with pytest.raises(RequestError, match=r"has `\.\.` after another link. Link to .*deep/model"):
        read_only_mounts([weights])


def test_broken_links_and_loops_are_left_to_the_engine(weights):
    (weights / "broken").symlink_to("nowhere")
    (weights / "loop").symlink_to("loop")
    assert set(mounts(weights)) == {weights}


def test_a_name_that_would_add_a_field_to_a_mount_is_rejected(weights, tmp_path):
    file = tmp_path / "host" / "x,source=" / "etc"
    file.parent.mkdir()
    file.write_text("")
    (weights / "link").symlink_to(file)
    with pytest.raises(RequestError, match="has a comma, a quotation mark or a line break"):
        read_only_mounts([weights])
