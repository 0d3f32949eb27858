from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

EXAMPLE = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "docs" / "gitlab-ci.example.yml").read_text()
)


@pytest.mark.parametrize("job", ["plan", "report"])
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
    assert "TOKEN" not in str(EXAMPLE["plan"])


def test_a_stack_without_a_stream_is_reported():
    script = "".join(EXAMPLE["report"]["script"])
    assert (
        'inferplan report --complete --base "$CI_MERGE_REQUEST_DIFF_BASE_SHA" --commit'
        ' "$CI_COMMIT_SHA"' in script
    )
    assert EXAMPLE["report"]["variables"] == EXAMPLE["plan"]["variables"] == {"GIT_DEPTH": "0"}
