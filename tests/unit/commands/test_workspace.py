from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferplan.pulumi_engine.secrets import SecretsError
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_a_person_types_the_name_of_a_stack_of_the_project_and_the_path_of_any_other_file(tmp_path):
    assert open_workspace("local").typed == "local"
    assert open_workspace("stacks/Pulumi.local.yaml").typed == "local"
    assert open_workspace("docs/engines/Pulumi.vllm.yaml").typed == "docs/engines/Pulumi.vllm.yaml"
    elsewhere = Path(shutil.copy("stacks/Pulumi.local.yaml", tmp_path))
    assert open_workspace(str(elsewhere)).typed == str(elsewhere)


def test_a_passphrase_that_is_not_a_stack_s_names_the_stack(monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of another stack")
    with pytest.raises(
        SecretsError,
        match=(
            r"stacks/Pulumi\.local\.yaml:\d+:1: the passphrase in PULUMI_CONFIG_PASSPHRASE is not"
            r" this stack's, or .*\. Set"
        ),
    ):
        _ = open_workspace("local").secrets
