"""The scripts that post the report, run as they stand in the workflow files, with stand-ins for `gh` and `curl` that write down what they are asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.patience import PATIENCE_SECONDS
from tests.review_streams import stack_step, stream

ROOT = Path(__file__).resolve().parents[2]
COMMENT = yaml.safe_load((ROOT / ".github" / "workflows" / "comment.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "docs" / "gitlab-ci.example.yml").read_text())
# Answers a request by the first of its answers whose key is in the command line.
_STAND_IN = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
line = " ".join(sys.argv[1:])
with (here / "asked").open("a") as asked:
    asked.write(line + "\\n")
for key, answer in json.loads((here / "answers").read_text()):
    if key in line:
        if "-D" in sys.argv:
            pathlib.Path(sys.argv[sys.argv.index("-D") + 1]).write_text(answer["headers"])
        sys.stdout.write(answer["body"] if isinstance(answer, dict) else answer)
        break
"""
NUMBERS = {"REPOSITORY": "o/r", "RUN_ID": "7", "RUN_URL": "https://ci.example/7", "HEAD": "abc", "SOURCE": "anna:branch"}


def step(name: str) -> str:
    (found,) = [each["run"] for each in COMMENT["jobs"]["comment"]["steps"] if each.get("name") == name]
    return found


class Place:
    """A folder in which a script runs, with the stand-in `tool` on the PATH."""

    def __init__(self, folder: Path, tool: str) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / tool).write_text(_STAND_IN.format(python=sys.executable))
        (self.bin / tool).chmod(0o755)
        (folder / ".venv").symlink_to(Path(sys.executable).parents[1])

    def run(self, script: str, *answers: tuple[str, object], **environment: str) -> tuple[int, list[str]]:
        """The exit code of `script`, and what it asked for."""
        (self.bin / "answers").write_text(json.dumps(answers))
        summary = {"GITHUB_STEP_SUMMARY": str(self.folder / "summary")}
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],  # noqa: S607 - any bash will do
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **NUMBERS, **summary, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        asked = self.bin / "asked"
        return done.returncode, asked.read_text().splitlines() if asked.exists() else []


@pytest.fixture
def github(tmp_path):
    return Place(tmp_path, "gh")


@pytest.fixture
def gitlab(tmp_path):
    return Place(tmp_path, "curl")


@pytest.mark.parametrize(
    ("comments", "asks"),
    [("", "--method POST repos/o/r/issues/5/comments "), ("31\n32", "--method PATCH repos/o/r/issues/comments/31 ")],
)
def test_one_comment_is_made_or_brought_up_to_date(github, comments, asks):
    code, asked = github.run(step("Post it"), ("repos/o/r/pulls", "5"), ("--paginate", comments))
    assert code == 0
    assert "--paginate repos/o/r/issues/5/comments?per_page=100" in asked[1]
    assert asks in f"{asked[2]} "
    assert "body=@report/report.md" in asked[2]


def test_nothing_is_posted_where_no_pull_request_is_open_any_more(github):
    code, asked = github.run(step("Post it"), ("repos/o/r/pulls", ""))
    assert (code, len(asked)) == (0, 1)


def made(place: Place, streams: dict[str, bytes], conclusion: str) -> str:
    for name, content in streams.items():
        path = place.folder / "events" / "events-planned" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (place.folder / "events").mkdir(exist_ok=True)
    code, _ = place.run(step("Make the report"), ("actions/runs/7", conclusion))
    assert code == 0
    return (place.folder / "report" / "report.md").read_text()


@pytest.mark.parametrize(
    ("streams", "conclusion", "words"),
    [
        ({}, "success", "No stack is touched by this change"),
        ({}, "failure", "The preview failed before it began"),
        pytest.param({"dev.ndjson": b"Segmentation fault"}, "failure", "The preview cannot be read", marks=pytest.mark.full),
        pytest.param({"dev.ndjson": b""}, "failure", "incomplete", marks=pytest.mark.full),
        pytest.param({"dev.ndjson": stream(stack_step())}, "success", "no changes", marks=pytest.mark.full),
    ],
)
def test_every_end_of_a_preview_makes_a_comment_that_can_be_found_again(github, streams, conclusion, words):
    text = made(github, streams, conclusion)
    assert text.startswith("<!-- inferplan:preview v1 ")
    assert words in text


def gitlab_note(place: Place, *answers: tuple[str, object]) -> list[str]:
    facts = {"CI_API_V4_URL": "https://gl.example/api/v4", "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "2", "REPORT_TOKEN": "t"}
    facts |= {"CI_COMMIT_SHA": "abc", "CI_COMMIT_SHORT_SHA": "abc", "CI_PIPELINE_URL": "https://gl.example/p/1"}
    return place.run("\n".join(GITLAB["report"]["script"]), *answers, **facts)[1]


@pytest.mark.parametrize(
    ("stacks", "streams", "words"),
    [
        (None, {}, "failed before it began"),
        ("", {}, "No stack is touched"),
        pytest.param("dev", {"dev.ndjson": b"nonsense"}, "cannot be read", marks=pytest.mark.full),
        pytest.param("dev", {"dev.ndjson": stream(stack_step())}, "no changes", marks=pytest.mark.full),
    ],
)
def test_a_note_is_written_whatever_came_of_the_plan(gitlab, stacks, streams, words):
    events = gitlab.folder / "events"
    events.mkdir()
    if stacks is not None:
        (events / "stacks").write_text(stacks)
    for name, content in streams.items():
        (events / name).write_bytes(content)
    asked = gitlab_note(gitlab, ("&page=1", {"headers": "x-next-page: \r\n", "body": "[]"}))
    assert "-X POST" in asked[-1]
    assert words in (gitlab.folder / "report.md").read_text()


def test_a_note_is_found_on_a_later_page(gitlab):
    (gitlab.folder / "events").mkdir()
    ours = json.dumps([{"id": 9, "body": "<!-- inferplan:preview v1 stacks= -->"}])
    pages = (("&page=1", {"headers": "X-Next-Page: 2\r\n", "body": "[]"}), ("&page=2", {"headers": "x-next-page: \r\n", "body": ours}))
    assert gitlab_note(gitlab, *pages)[-1].endswith("/merge_requests/2/notes/9")
