from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.commands.audit import command as audit
from inferplan.commands.rehearse_change import command as rehearse_change
from inferplan.errors import RequestError


@pytest.mark.parametrize("name", ["missing/a.md", "folder.md"])
def test_a_file_that_cannot_be_written_is_found_before_anything_is_read(tmp_path, name):
    (tmp_path / "folder.md").mkdir()
    path = tmp_path / name
    for option in ("save", "report"):
        with pytest.raises(
            RequestError,
            match=(
                rf"^--{option}: .*{name}. cannot be written\. Name a file in a folder that exists"
            ),
        ):
            audit.command("new.yaml", Path("nodes.yaml"), **{option: path})
    with pytest.raises(RequestError, match=r"^--save: "):
        rehearse_change.command("base", "head", "dev", save=path)


@pytest.mark.parametrize("namespace", ["", "../x", "a/b", "Team", "a" * 64])
def test_a_namespace_that_is_no_name_is_rejected(tmp_path, namespace):
    with pytest.raises(
        RequestError,
        match=(
            r"^--namespace: .* is not a name\. Use at most 63 lower-case letters, digits and"
            r" hyphens"
        ),
    ):
        audit.command(str(tmp_path), Path("nodes.yaml"), namespace=namespace)
