"""docs/prediction.md shows what its own YAML prints, and the errors that docs/accuracy.md has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.predict.facts import library

library()

from inferplan.commands import main  # noqa: E402 - after the skip

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
SHOWN = re.findall(
    r"```console\n\$ inferplan (plan|size|simulate)[^\n]*prod\n(.+?)```", PAGE, re.DOTALL
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """The stack prod with the lines of the page."""
    [lines] = re.findall(r"```yaml\n.*?# \.\.\.\n(.+?)```", PAGE, re.DOTALL)
    text = (ROOT / "stacks" / "Pulumi.prod.yaml").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("page") / "Pulumi.prod.yaml"
    path.write_text(text.replace("    llama-3-8b:\n", f"    llama-3-8b:\n{lines}", 1))
    return path


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[name for name, _ in SHOWN])
def test_the_page_shows_what_its_yaml_prints(command, shown, stack, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    model = ("llama-3-8b", "--stack")
    arguments = (command, *(() if command == "plan" else model), str(stack))
    with pytest.raises(SystemExit) as ended:
        main.run(arguments)
    assert not ended.value.code
    printed = " ".join(capsys.readouterr().out.split())
    for line in filter(str.strip, shown.splitlines()):
        if "─" not in line:
            assert " ".join(line.split()) in printed


def test_the_page_has_all_tables():
    assert [name for name, _ in SHOWN] == ["plan", "size", "simulate"]


def test_the_page_states_the_errors_of_what_nothing_was_fitted_to():
    accuracy = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (ITL|TTFT|throughput) \| [0-9]+ \| ([0-9]+%)", accuracy, re.MULTILINE)
    first = dict(reversed(cells[:3]))
    text = " ".join(PAGE.split())
    assert (
        f"the median error is {first['ITL']} for ITL, {first['TTFT']} for TTFT and"
        f" {first['throughput']} for throughput" in text
    )
    [share] = re.findall(r"holds [0-9]+ of [0-9]+ figures \(([0-9]+%)\)", accuracy)[:1]
    assert f"{share} of the figures are within the band" in text
    [unsafe] = re.findall(r"throughput, ([0-9]+ of [0-9]+) replicas", accuracy)[:1]
    assert f"{unsafe} replicas beyond" in text
