from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from inferplan.commands.main import run

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
        ([__file__], ["test_report.py:1", "is not JSON", "pulumi preview --json"]),
        (
            [KUBERNETES / "changes.ndjson", "--run-url", "javascript:alert(1)"],
            ["--run-url", "https://"],
        ),
        (
            [KUBERNETES / "changes.ndjson", "--html", "/nowhere/o.html"],
            ["/nowhere/o.html cannot be written", "folder that exists"],
        ),
        ([KUBERNETES / "changes.ndjson", "--budget", "10"], ["--budget", "10"]),
    ],
)
def test_bad_input_gets_a_sentence(capsys, arguments, words):
    assert report(*arguments) in (1, 2)
    said = capsys.readouterr().err
    for word in words:
        assert word in said
    assert "Traceback" not in said


@pytest.mark.parametrize("depth", [50, 150, 400, 700, 950, 5000])
def test_inputs_of_any_depth_are_shown_or_rejected_in_a_sentence(tmp_path, capsys, depth):
    deep = '{"a":' * depth + "1" + "}" * depth
    urn = "urn:pulumi:d::p::x:y:Z::n"
    old, new = (
        f'{{"type": "x:y:Z", "urn": "{urn}", "inputs": {each}}}'
        for each in (deep, deep.replace("1", "2"))
    )
    metadata = f'{{"op": "update", "urn": "{urn}", "type": "x:y:Z", "old": {old}, "new": {new}}}'
    path = tmp_path / "deep.ndjson"
    path.write_text(
        f'{{"resOutputsEvent": {{"metadata": {metadata}}}}}\n{{"summaryEvent": {{"resourceChanges":'
        ' {"update": 1}}}\n'
    )
    code = report(path)
    captured = capsys.readouterr()
    assert code in (0, 2)
    assert "unexpected" not in captured.err
    assert (code == 2) == ("nested too deeply" in captured.err)


def test_findings_of_a_rehearsal_are_taken_along(tmp_path):
    from inferplan.review.findings import findings_of, save

    found = tmp_path / "found.json"
    found.write_bytes(save(findings_of([], stack="dev", base="a", head="b", outcome="stuck")))
    assert report(KUBERNETES / "no-change.ndjson", found, "--markdown", tmp_path / "o.md") == 0
    assert "the rehearsed upgrade failed" in (tmp_path / "o.md").read_text()


def test_commands_to_repeat_are_safe_to_type_whatever_the_stream_calls_its_stack(tmp_path, capsys):
    path = tmp_path / "e.ndjson"
    prelude = '{"preludeEvent": {"planner": "inferplan", "against": "a; touch x"}}'
    urn = "urn:pulumi:$(touch y)::p::pulumi:pulumi:Stack::s"
    path.write_text(
        f'{prelude}\n{{"diagnosticEvent": {{"urn": "{urn}", "message": "m", "severity":'
        ' "info"}}\n{"summaryEvent": {}}\n'
    )
    report(path)
    told = html.unescape(capsys.readouterr().out)
    assert "inferplan plan '$(touch y)' --against 'a; touch x' --events '$(touch y).ndjson'" in told
