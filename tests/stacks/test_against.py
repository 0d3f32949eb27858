"""A plan set against another revision of the same repository, made by that revision's own code."""

from __future__ import annotations

import pytest

from inferplan.commands.main import run
from inferplan.review.reading.reader import read_file
from inferplan.review.rendering.markdown import render
from inferplan.review.report import make_report
from tests.checkouts import committed, git, make_checkout


def plan(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        run(["plan", *map(str, arguments)])
    return int(end.value.code or 0)


@pytest.mark.full
def test_a_plan_against_a_revision_shows_what_changed_since_and_leaves_no_checkout_behind(
    tmp_path, monkeypatch
):
    folder = make_checkout(tmp_path)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    # The head is in the working tree, the base under its branch.
    git(
        folder,
        "reset",
        "--quiet",
        "--hard",
        committed(
            folder,
            (r"batch: \{keys: \[1\]\}", "batch: {keys: [2]}"),
            (r"batch: \{issued: 1\}", "batch: {issued: 2, spent: 1}"),
        ),
    )
    assert plan("local", "--against", "HEAD~1", "--events", folder / "events.ndjson") == 0
    preview = read_file(folder / "events.ndjson")
    assert preview.counts["update"] > 0
    assert "loses key 1" in render(make_report([preview]))
    assert git(folder, "worktree", "list").count("\n") == 0


def test_a_file_elsewhere_is_compared_with_the_stack_of_its_name(tmp_path, monkeypatch):
    folder = make_checkout(tmp_path)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    copy = tmp_path / "Pulumi.local.yaml"
    copy.write_bytes((folder / "stacks" / "Pulumi.local.yaml").read_bytes())
    assert plan(copy, "--against", "HEAD", "--events", folder / "events.ndjson") == 0
    assert set(read_file(folder / "events.ndjson").counts) == {"same"}


@pytest.mark.full
def test_a_stack_that_the_other_revision_does_not_have_is_all_new(tmp_path, monkeypatch):
    folder = make_checkout(tmp_path)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    git(folder, "mv", "stacks/Pulumi.local.yaml", "stacks/Pulumi.fresh.yaml")
    assert plan("fresh", "--against", "HEAD", "--events", folder / "events.ndjson") == 0
    assert set(read_file(folder / "events.ndjson").counts) == {"create"}


@pytest.mark.parametrize(
    ("against", "words"),
    [
        ("no-such-branch", "'no-such-branch' is not a revision of"),
        ("--upload-pack=x", "is not a revision of"),
        ("nowhere.json", "--against nowhere.json cannot be read: No such file"),
        (__file__, "not a saved plan"),
    ],
)
def test_what_is_neither_plan_nor_revision_is_told_apart(against, words, capsys):
    assert plan("local", f"--against={against}") == 2
    assert words in capsys.readouterr().err


def test_a_refused_plan_tells_the_report_why(tmp_path, capsys):
    target = tmp_path / "refused.ndjson"
    assert plan("locl", "--events", target) == 2
    assert "Unknown stack 'locl'. Did you mean 'local'?" in capsys.readouterr().err
    report = make_report([read_file(target)])
    assert report.verdict == "the preview failed"
    assert report.stacks[0].title == "inferplan/locl"
    assert "Did you mean" in render(report)
