from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.main import run

KUBERNETES = Path(__file__).resolve().parents[2] / "fixtures" / "kubernetes-previews"


def report(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        run(["report", *map(str, arguments)])
    return int(end.value.code or 0)


def test_it_writes_the_three_forms(tmp_path):
    files = {form: tmp_path / f"report.{form}" for form in ("markdown", "html", "json")}
    options = [part for form, path in files.items() for part in (f"--{form}", path)]
    assert report(KUBERNETES / "changes.ndjson", *options) == 0
    assert files["markdown"].read_text().startswith("<!-- inferplan:preview v1 stacks=tiny/dev")
    assert files["html"].read_text().startswith("<!doctype html>")
    assert json.loads(files["json"].read_text())["stacks"][0]["counts"]["replace"] == 2


def test_it_prints_markdown_when_no_file_is_asked_for(capsys):
    report(KUBERNETES / "no-change.ndjson", "--commit", "abc1234")
    printed = capsys.readouterr().out
    assert "no changes" in printed
    assert "commit <code>abc1234</code>" in printed


@pytest.mark.parametrize("cut", [0, 30000])
def test_a_run_that_broke_off_is_reported_and_exits_with_three(tmp_path, cut):
    path = tmp_path / "cut.ndjson"
    path.write_bytes((KUBERNETES / "changes.ndjson").read_bytes()[:cut])
    assert report(path, "--markdown", tmp_path / "o.md") == 3
    assert "incomplete" in (tmp_path / "o.md").read_text()


def test_a_mandatory_violation_exits_with_three(tmp_path):
    assert report(KUBERNETES / "policy-violations.ndjson", "--markdown", tmp_path / "o.md") == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.ndjson"], ["nowhere.ndjson cannot be read", "No such file"]),
        ([__file__], ["test_report.py:1", "no JSON starts at", "pulumi preview --json"]),
        ([KUBERNETES / "changes.ndjson", "--run-url", "javascript:alert(1)"], ["--run-url", "https://"]),
        ([KUBERNETES / "changes.ndjson", "--html", "/nowhere/o.html"], ["/nowhere/o.html cannot be written", "folder that exists"]),
        ([KUBERNETES / "changes.ndjson", "--budget", "10"], ["--budget", "10"]),
    ],
)
def test_bad_input_gets_a_sentence(capsys, arguments, words):
    assert report(*arguments) in (1, 2)
    said = capsys.readouterr().err
    for word in words:
        assert word in said
    assert "Traceback" not in said
