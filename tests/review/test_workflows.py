from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GO = shutil.which("go") or next((path for path in ("/usr/local/go/bin/go",) if Path(path).is_file()), None)


def parsed(path: Path):
    return yaml.safe_load(path.read_text())


def steps(path: Path):
    return [step for job in parsed(path)["jobs"].values() for step in job["steps"]]


def test_there_are_the_five_workflows():
    assert [path.stem for path in WORKFLOWS] == ["comment", "drift", "preview", "test", "up"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_a_commit_with_its_version_beside_it(path):
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert uses
    assert all(re.fullmatch(r"[\w-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in uses)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_starts_with_reading_and_each_job_says_what_more_it_needs(path):
    assert parsed(path)["permissions"] == {"contents": "read"}
    granted = {right for job in parsed(path)["jobs"].values() for right, level in job.get("permissions", {}).items() if level == "write"}
    assert granted == {"comment": {"pull-requests"}, "drift": {"id-token", "issues"}, "preview": {"id-token"}, "up": {"id-token"}}.get(
        path.stem, set()
    )


def test_code_of_a_pull_request_never_runs_with_the_right_to_write_or_from_a_fork_with_credentials():
    preview = parsed(ROOT / ".github" / "workflows" / "preview.yml")
    assert set(preview[True]) == {"pull_request"}
    with_credentials = [job for job in preview["jobs"].values() if "id-token" in job.get("permissions", {}) or "secrets." in str(job)]
    assert [job["if"].startswith("github.event.pull_request.head.repo.full_name == github.repository") for job in with_credentials] == [
        True
    ]
    checkouts = [step for step in steps(ROOT / ".github" / "workflows" / "comment.yml") if "checkout" in step.get("uses", "")]
    assert all("ref" not in step["with"] for step in checkouts)


def test_the_comment_is_found_by_its_marker_over_all_pages_and_made_after_failures_too():
    from review.markdown import marker
    from review.report import make_report

    text = (ROOT / ".github" / "workflows" / "comment.yml").read_text()
    (wanted,) = re.findall(r'startswith\("(.*?)"\)', text)
    assert marker(make_report([])).startswith(wanted)
    assert "--paginate" in text
    assert all(marked.startswith(wanted) for marked in re.findall(r"printf '(.*?)'", text))
    assert "conclusion != 'cancelled'" in text


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_expression_is_pasted_into_a_script(path):
    assert not [step["run"] for step in steps(path) if "${{" in step.get("run", "")]


def test_scripts_are_sound_bash():
    for path in WORKFLOWS:
        for step in steps(path):
            if "run" in step:
                checked = subprocess.run(["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False)  # noqa: S607 - any bash will do
                assert not checked.stderr, (path, checked.stderr)


def test_zizmor_finds_nothing():
    judged = subprocess.run(
        [str(Path(sys.executable).parent / "zizmor"), "--offline", "--no-progress", str(ROOT / ".github" / "workflows")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout


@pytest.mark.skipif(GO is None, reason="actionlint is built with go, which is not on this machine")
def test_actionlint_finds_nothing(tmp_path):
    folder, actionlint = Path(__file__).parent / "actionlint", tmp_path / "actionlint"
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    module = "github.com/rhysd/actionlint/cmd/actionlint"
    built = subprocess.run(
        [str(GO), "build", "-o", str(actionlint), module], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(f"actionlint cannot be built here: {built.stderr.strip().splitlines()[-1:]}")
    judged = subprocess.run([str(actionlint), *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr
