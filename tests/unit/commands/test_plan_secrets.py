"""A saved plan says whether it has placeholders for secrets, and a comparison across that
difference says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.commands.main import run
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
