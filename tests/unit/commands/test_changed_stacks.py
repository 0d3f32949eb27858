from __future__ import annotations

import json
import subprocess

import pytest

from inferplan.commands.main import run
from inferplan.workspace.revisions import touched

STACKS = {"local": "stacks/Pulumi.local.yaml", "onprem": "stacks/Pulumi.onprem.yaml"}


@pytest.mark.parametrize(
    ("changed", "stacks"),
    [
        ([], []),
        (["stacks/Pulumi.onprem.yaml"], ["onprem"]),
        (
            [
                "stacks/Pulumi.onprem.yaml",
                "docs/a.md",
                "README.md",
                "tests/unit/x.py",
                ".github/workflows/test.yml",
            ],
            ["onprem"],
        ),
        (["docs/a.md"], []),
        (["stacks/Pulumi.gone.yaml"], []),
        (["inferplan/components/serving/workload.py"], ["local", "onprem"]),
        (["requirements.lock"], ["local", "onprem"]),
        (["Pulumi.yaml", "stacks/Pulumi.local.yaml"], ["local", "onprem"]),
        (["something/new.bin"], ["local", "onprem"]),
        (None, ["local", "onprem"]),
    ],
)
def test_a_change_touches_its_own_stack_or_every_stack(changed, stacks):
    assert touched(changed, STACKS) == stacks


def printed(capsys, *arguments) -> list[str]:
    with pytest.raises(SystemExit) as end:
        run(["changed-stacks", *arguments])
    assert not end.value.code
    return json.loads(capsys.readouterr().out)


def test_real_stacks_are_those_that_are_not_simulated(capsys):
    assert "local" in printed(capsys, "--all")
    assert "local" not in printed(capsys, "--all", "--real")
    assert "onprem" in printed(capsys, "--all", "--real")


@pytest.mark.parametrize("base", ["0" * 40, "1234567890" * 4])
def test_a_base_that_is_not_there_touches_every_stack(capsys, base):
    assert printed(capsys, base, "HEAD") == printed(capsys, "--all")


def test_no_difference_touches_none(capsys):
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607 - git is on the PATH
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert printed(capsys, commit, commit) == []


@pytest.mark.parametrize("arguments", [[], ["--", "--output=/tmp/x", "HEAD"]])
def test_a_missing_or_unknown_base_is_rejected(capsys, arguments):
    with pytest.raises(SystemExit) as end:
        run(["changed-stacks", *arguments])
    assert end.value.code == 2
    assert "commit" in capsys.readouterr().err
