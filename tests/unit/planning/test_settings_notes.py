"""`pulumi stack rename` renames the stack file, and leaves the settings of policies under the old name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.operations.planning.notes import settings_notes


@pytest.fixture
def notes(tmp_path):
    """A function that makes a project with stack files and settings by name, and returns the notes on a stack."""

    def notes(stack, stacks, settings):
        for folder, names, form in (("stacks", stacks, "Pulumi.{}.yaml"), ("policies/stacks", settings, "{}.json")):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            for name in names:
                (tmp_path / folder / form.format(name)).write_text("{}")
        (tmp_path / "Pulumi.yaml").write_text("name: acme\nstackConfigDir: stacks\n")
        workspace: Any = SimpleNamespace(root=tmp_path, stack=stack)
        return list(settings_notes(workspace))

    return notes


def test_settings_that_a_rename_left_are_named_with_the_command(notes):
    [note] = notes("rack-2", ["rack-2", "other"], ["rack-1", "other"])
    assert "policies/stacks/rack-1.json belongs to no stack" in note
    assert note.endswith("git mv policies/stacks/rack-1.json policies/stacks/rack-2.json")


@pytest.mark.parametrize(
    ("stacks", "settings"),
    [
        (["rack-2"], []),
        (["rack-2"], ["rack-2", "rack-1"]),
        (["rack-1", "rack-2"], ["rack-1"]),
        (["rack-2"], ["a", "b"]),
    ],
)
def test_nothing_is_said_where_no_single_name_can_be_the_old_one(notes, stacks, settings):
    assert notes("rack-2", stacks, settings) == []
