"""A killed Pulumi may leave the attributes of a checkpoint empty; a recovery deletes those, and
nothing else.
"""

from __future__ import annotations

import json

import pytest

from inferplan.workspace.file_backend import checkpoint, discard_cut_attributes

WHOLE = json.dumps({"user.content_type": "text/plain", "md5": "P8vADA=="})
FILES = (
    "meta.yaml",
    "stacks/acme/chat.json",
    "locks/organization/acme/chat/5f6c.json",
    "history/acme/chat/chat-1.history.json",
)


@pytest.fixture
def backend(tmp_path):
    """A function that writes a backend's files, some with `cut` attributes, and returns its folder."""

    def write(cut, text):
        for name in FILES:
            path = tmp_path / "backend" / ".pulumi" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
            path.with_name(f"{path.name}.attrs").write_text(text if name in cut else WHOLE)
        return tmp_path / "backend"

    return write


def attributes(folder):
    return {
        str(path.relative_to(folder / ".pulumi")).removesuffix(".attrs")
        for path in folder.rglob("*.attrs")
    }


@pytest.mark.parametrize("text", ["", "{", WHOLE[:-1]])
@pytest.mark.parametrize("cut", [(), *((name,) for name in FILES), FILES])
def test_attributes_that_are_cut_off_are_deleted_and_named(backend, tmp_path, cut, text):
    folder = backend(cut, text)
    lines = discard_cut_attributes(tmp_path, {"PULUMI_BACKEND_URL": folder.as_uri()})
    assert attributes(folder) == {*FILES} - {*cut}
    assert len(lines) == len(cut)
    assert all("the file that it describes is whole" in line for line in lines)
    assert all((folder / ".pulumi" / name).read_text() == "{}" for name in FILES)


def test_a_dry_run_keeps_every_file(backend, tmp_path):
    folder = backend(FILES, "")
    lines = discard_cut_attributes(tmp_path, {"PULUMI_BACKEND_URL": folder.as_uri()}, keep=True)
    assert attributes(folder) == {*FILES}
    assert len(lines) == len(FILES)
    assert all("a recovery deletes it" in line for line in lines)


def test_a_checkpoint_is_read_as_the_cli_exports_it(tmp_path):
    path = tmp_path / ".pulumi" / "stacks" / "acme" / "chat.json"
    path.parent.mkdir(parents=True)
    deployment = {"manifest": {}, "resources": [{"urn": "a"}], "pending_operations": []}
    path.write_text(json.dumps({"version": 3, "checkpoint": {"latest": deployment}}))
    url = tmp_path.as_uri()
    assert checkpoint(url, "acme", "chat") == {"version": 3, "deployment": deployment}
    assert checkpoint(url, "acme", "web") is None
    assert checkpoint("s3://bucket", "acme", "chat") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        json.dumps({"version": 3}),
        json.dumps({"version": 3, "checkpoint": None}),
        json.dumps({"version": 4, "checkpoint": {"latest": {}}}),
    ],
)
def test_pulumi_reads_any_other_checkpoint(tmp_path, text):
    path = tmp_path / ".pulumi" / "stacks" / "acme" / "chat.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert checkpoint(tmp_path.as_uri(), "acme", "chat") is None


def test_the_backend_is_the_one_that_pulumi_uses(backend, tmp_path):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (project / "Pulumi.yaml").write_text("name: acme\n")
    assert discard_cut_attributes(project, {"PULUMI_HOME": str(home)}) == []
    (home / "credentials.json").write_text(json.dumps({"current": backend(FILES[:1], "").as_uri()}))
    assert len(discard_cut_attributes(project, {"PULUMI_HOME": str(home)})) == 1
    (project / "Pulumi.yaml").write_text(
        f"name: acme\nbackend: {{url: {backend(FILES[:2], '').as_uri()}}}\n"
    )
    (home / "credentials.json").write_text(json.dumps({"current": "https://api.acme.example"}))
    assert len(discard_cut_attributes(project, {"PULUMI_HOME": str(home)})) == 2


@pytest.mark.parametrize(
    "url", ["https://api.acme.example", "s3://acme-state", "file:///nowhere/at/all"]
)
def test_other_backends_are_left_alone(tmp_path, url):
    assert discard_cut_attributes(tmp_path, {"PULUMI_BACKEND_URL": url}) == []
