"""Keys of older releases keep working, with a note that names the key of today and its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate

STACK = (Path(__file__).parents[3] / "docs" / "engines" / "Pulumi.tensorrt-llm.yaml").read_text()
POOL = "l40s: {provider: simulated, accelerator: nvidia-l40s, instanceType: g6e.12xlarge"


def checked(folder: Path, text: str):
    path = folder / "Pulumi.harbour.yaml"
    path.write_text(text)
    file = read_stack(path, shown_path="Pulumi.harbour.yaml")
    settings = validate(file)
    return settings, [line for line in advised(settings, file) if "is now called" in line]


def test_a_file_with_an_old_key_means_the_same_and_is_told_the_new_one(tmp_path):
    assert POOL in STACK
    new, notes = checked(tmp_path, STACK)
    assert notes == []
    old, notes = checked(
        tmp_path, STACK.replace("instanceType: g6e.12xlarge", "machine: g6e.12xlarge")
    )
    assert old == new
    line = 1 + next(
        index for index, text in enumerate(STACK.splitlines()) if "instanceType" in text
    )
    column = STACK.splitlines()[line - 1].index("instanceType") + 1
    where = f"Pulumi.harbour.yaml:{line}:{column}: nodePools.l40s.machine"
    assert notes == [
        f"{where}: 'machine' is now called 'instanceType'. The old key still works. Rename it."
    ]


def test_both_keys_at_once_are_an_error(tmp_path):
    with pytest.raises(InvalidStack, match="machine"):
        checked(
            tmp_path,
            STACK.replace(
                "instanceType: g6e.12xlarge", "machine: g6e.12xlarge, instanceType: g6e.12xlarge"
            ),
        )


def test_the_registered_inputs_keep_the_old_key_so_that_previews_stay_quiet(tmp_path):
    settings, _ = checked(tmp_path, STACK)
    assert settings.node_pools["l40s"].intent()["machine"] == "g6e.12xlarge"
