"""A saved plan says whether it has placeholders for secrets, and a comparison across that
difference says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferplan.commands.main import run
from inferplan.pulumi_engine.plan.states import load
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def plan(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    def call(*arguments: str | Path, passphrase: bool) -> tuple[str, str]:
        if passphrase:
            monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", EXAMPLE_PASSPHRASE)
        else:
            monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)
        with pytest.raises(SystemExit) as ended:
            run(["plan", "local", *map(str, arguments)])
        printed = capsys.readouterr()
        assert not ended.value.code, printed.err
        return printed.out, printed.err

    return call


@pytest.mark.parametrize(
    ("passphrase", "words"), [(True, ("with", "without")), (False, ("without", "with"))]
)
def test_a_passphrase_on_one_side_only_is_reported_instead_of_changed_keys(
    plan, tmp_path, passphrase, words
):
    saved = tmp_path / "base.json"
    plan("--save", saved, passphrase=passphrase)
    out, err = plan("--against", saved, passphrase=not passphrase)
    assert "to change" not in out
    assert "unchanged" in out
    assert (
        f"base.json was planned {words[0]} the passphrase and this plan is made {words[1]} it"
        in err
    )
    _, same = plan("--against", saved, passphrase=passphrase)
    assert "was planned" not in same


def test_a_printed_plan_hides_what_may_be_a_secret_and_a_saved_one_keeps_it(
    monkeypatch, tmp_path, capsys
):
    """ConfigMaps and commands of the stack file, of which neither is a secret by its type."""
    value = "q7ZkVtX2mWbR9pLd"
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    objects = {"settings": {**settings, "data": {"a.toml": f'door = "{value}"\nsize = 3\n'}}}
    stack = tmp_path / "stacks" / "Pulumi.local.yaml"
    stack.parent.mkdir()
    stack.write_text(f"{text}  inferplan:extraObjects: {json.dumps(objects)}\n")
    for name in ("Pulumi.yaml", "inferplan"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)
    with pytest.raises(SystemExit) as ended:
        run(["plan", "local", "--json", "--save", "saved.json"])
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    document = json.loads(printed.out)
    [shown] = [each for each in document["resources"] if each["urn"].endswith("::settings")]
    assert shown["inputs"]["data"]["a.toml"] == 'door = "(hidden, 16 characters)"\nsize = 3\n'
    assert value not in printed.out
    assert value in Path("saved.json").read_text()
    with pytest.raises(ValueError, match="not a saved plan"):
        load(printed.out.encode())
