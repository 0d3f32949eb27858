"""`inferplan monitoring`: the rules as files."""

from __future__ import annotations

import pytest
import yaml

from inferplan.commands.main import run
from tests.unit.gateway.whole_stack import ROOT


def status(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    return ended.value.code or 0


def stack_with(tmp_path, monitoring):
    tree = yaml.safe_load((ROOT / "stacks" / "Pulumi.local.yaml").read_text())
    tree["config"].pop("inferplan:monitoring", None)
    if monitoring is not None:
        tree["config"]["inferplan:monitoring"] = monitoring
    file = tmp_path / "Pulumi.watched.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


def test_rules_are_written_as_a_rule_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    file = stack_with(tmp_path, {"prometheus": {"namespace": "watch"}})
    assert status("monitoring", str(file), "--to", str(tmp_path / "out" / "rules")) == 0
    written = yaml.safe_load((tmp_path / "out" / "rules" / "rules.yml").read_text())
    assert "inferplan-alerts" in [group["name"] for group in written["groups"]]
    assert "rules.yml" in capsys.readouterr().out


def test_a_stack_without_monitoring_is_told_what_to_add(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert status("monitoring", str(stack_with(tmp_path, None)), "--to", str(tmp_path / "out")) == 2
    assert "has no monitoring. Add, for example, inferplan:monitoring:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
