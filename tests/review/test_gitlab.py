from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

EXAMPLE = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "docs" / "gitlab-ci.example.yml").read_text()
)


@pytest.mark.parametrize("job", ["plan", "check", "report"])
def test_the_jobs_run_on_merge_requests_and_their_scripts_are_sound(job):
    assert '$CI_PIPELINE_SOURCE == "merge_request_event"' in str(EXAMPLE[job]["rules"])
    for script in EXAMPLE[job]["script"]:
        checked = subprocess.run(
            ["bash", "-n"],  # noqa: S607 - any bash will do
            input=script,
            text=True,
            capture_output=True,
            check=False,
        )
        assert not checked.stderr


def test_the_note_is_found_by_the_reports_marker():
    from inferplan.review.rendering.markdown import marker
    from inferplan.review.report import make_report

    (wanted,) = re.findall(r'startswith\("(.*?)"\)', "".join(EXAMPLE["report"]["script"]))
    assert marker(make_report([])).startswith(wanted)


def test_the_plan_never_sees_the_token():
    assert "TOKEN" not in str([EXAMPLE["plan"], EXAMPLE["check"]])


def test_the_whole_judge_is_that_of_the_base():
    """As in the workflow of GitHub: another checkout with its packages runs the check."""
    plan, check = ("".join(EXAMPLE[job]["script"]) for job in ("plan", "check"))
    restored = "-- inferplan/policies ':!inferplan/policies/stacks'"
    assert plan.index(restored) < plan.index("make setup") < plan.index("inferplan plan")
    base = 'git worktree add --quiet --detach "$judge" "$CI_MERGE_REQUEST_DIFF_BASE_SHA"'
    assert check.index(base) < check.index('(cd "$judge" && make setup)')
    assert '"$judge/.venv/bin/inferplan" check' in check
    assert ".venv/bin/inferplan check" not in plan


def test_the_report_is_made_by_the_program_of_the_base():
    """The job has the token, and its program judges the events again."""
    report = "".join((*EXAMPLE["report"]["before_script"], *EXAMPLE["report"]["script"]))
    base = 'git worktree add --quiet --detach "$judge" "$CI_MERGE_REQUEST_DIFF_BASE_SHA"'
    assert report.index(base) < report.index('(cd "$judge" && make setup)')
    assert '"$judge/.venv/bin/inferplan" report' in report
    for line in (*EXAMPLE["report"]["before_script"], *EXAMPLE["report"]["script"]):
        assert not re.search(r"(?<!\$judge/)\.venv/bin|^make ", line)


@pytest.mark.parametrize("weakened", [False, True])
def test_the_check_runs_the_program_of_the_base(tmp_path, weakened):
    """In a repository whose head replaces the judge, the script calls that of the base."""

    def git(*words: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)  # noqa: S607 - git of the machine

    judge = tmp_path / "inferplan" / "policies" / "judge"
    judge.parent.mkdir(parents=True)
    (tmp_path / "Makefile").write_text(
        "setup:\n\tmkdir -p .venv/bin && cp inferplan/policies/judge .venv/bin/inferplan\n"
    )
    script = (
        '#!/bin/sh\n[ "$1" = changed-stacks ] && echo \'["prod"]\' && exit\necho %s $3; exit %s\n'
    )
    judge.write_text(script % ("base", 1))
    judge.chmod(0o755)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "base")
    if weakened:
        judge.write_text(script % ("head", 0))
        git("commit", "-qam", "head")
    result = subprocess.run(
        ["bash", "-e", "-c", "".join(EXAMPLE["check"]["script"])],  # noqa: S607 - any bash will do
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD~1" if weakened else "HEAD",
        },
        text=True,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stdout.splitlines()[-1]) == (1, "base prod"), result.stderr


def test_a_stack_without_a_stream_is_reported():
    script = "".join(EXAMPLE["report"]["script"])
    assert (
        '"$judge/.venv/bin/inferplan" report --complete --base "$CI_MERGE_REQUEST_DIFF_BASE_SHA" --commit'
        ' "$CI_COMMIT_SHA"' in script
    )
    assert EXAMPLE["report"]["variables"] == EXAMPLE["plan"]["variables"] == {"GIT_DEPTH": "0"}
