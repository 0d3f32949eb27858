"""Every command of the tutorials exists with its options; docs/tutorials is followed as a whole in
tests/rehearsal/test_tutorials.py.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib

import pytest

from inferplan.commands import main
from inferplan.workspace.project import project_root
from tests.tutorials import MARKS, TUTORIALS, blocks

NAMES = sorted(path.name for path in TUTORIALS.glob("*.md"))
COMMANDS = [
    (name, block.mark, command)
    for name in NAMES
    for block in blocks(name)
    for command in block.commands
]


def test_there_are_tutorials_and_every_mark_is_known():
    assert NAMES
    assert {mark for _, mark, _ in COMMANDS} <= set(MARKS)


@pytest.mark.parametrize(
    "command", sorted({command for _, _, command in COMMANDS if command.startswith("inferplan ")})
)
def test_every_inferplan_command_has_its_arguments_and_options(command):
    _, name, *arguments = shlex.split(command.partition(" > ")[0].partition(" | ")[0])
    assert main.load(name).make_context(name, arguments) is not None


def test_what_a_tutorial_installs_is_what_doctor_prints():
    table = tomllib.loads(
        (project_root() / "inferplan" / "commands" / "doctor" / "remedies.toml").read_text()
    )
    printed = {text for section in table.values() for text in section.values()}
    installed = {
        command for _, mark, command in COMMANDS if mark == "network" and "rack" in command
    }
    assert installed
    assert {
        each.replace("--context rack", "--context CONTEXT").replace(
            "--kube-context rack", "--kube-context CONTEXT"
        )
        for each in installed
    } <= printed


def test_the_exemptions_of_the_tutorial_give_reasons_that_are_true_of_its_stack():
    [command] = [each for _, _, each in COMMANDS if "policies/stacks/staging.json" in each]
    sed = command.partition(" > ")[0]
    done = subprocess.run(
        shlex.split(sed), cwd=project_root(), capture_output=True, text=True, check=True
    )
    reasons = {each["resource"]: each["reason"] for each in json.loads(done.stdout)["exemptions"]}
    # The weights come from the model hub; there is no bucket.
    assert (
        reasons["FileSystem/shared"]
        == "a copy of files of the hub, which the preheat Jobs fill again"
    )
    assert "staging" not in done.stdout


@pytest.mark.full
def test_the_cost_in_the_tutorial_is_that_of_the_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    stack, events = TUTORIALS / "Pulumi.aws.yaml", tmp_path / "events.json"
    for arguments in (["plan", str(stack), "--events", str(events)], ["report", str(events)]):
        with pytest.raises(SystemExit):
            main.run(arguments)
    [stated] = re.findall(r"shows ([\d,]+) USD a month", (TUTORIALS / "aws.md").read_text())
    assert f"+&#36;{stated} a month" in capsys.readouterr().out
