"""The scripts that post the report, run as they stand in the workflow files, with stand-ins for
`gh` and `curl` that write down what they are asked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.checkouts import git, small_project
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
NUMBERS = {
    "REPOSITORY": "o/r",
    "RUN_ID": "7",
    "RUN_URL": "https://ci.example/7",
    "REPORT_URL": "https://ci.example/8",
}
NUMBERS |= {"SOURCE": "anna:branch", "FORK": "false", "NUMBER": "5", "TARGET": "main"}


def step(name: str) -> str:
    (found,) = [
        each["run"] for each in COMMENT["jobs"]["comment"]["steps"] if each.get("name") == name
    ]
    return found


class Place:
    """A folder in which a script runs, with the stand-in `tool` on the PATH."""

    def __init__(self, folder: Path, tool: str) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(exist_ok=True)
        (self.bin / tool).write_text(_STAND_IN.format(python=sys.executable))
        (self.bin / tool).chmod(0o755)
        if not (folder / ".venv").exists():
            (folder / ".venv").symlink_to(Path(sys.executable).parents[1])

    def run(
        self, script: str, *answers: tuple[str, object], **environment: str
    ) -> tuple[int, list[str]]:
        """The exit code of `script`, and what it asked for."""
        (self.bin / "answers").write_text(json.dumps(answers))
        summary = {
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
        }
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],  # noqa: S607 - any bash will do
            cwd=self.folder,
            env={
                "HEAD": "abc",
                **os.environ,
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                **NUMBERS,
                **summary,
                **environment,
            },
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
    [
        ("", "--method POST repos/o/r/issues/5/comments "),
        ("31\n32", "--method PATCH repos/o/r/issues/comments/31 "),
    ],
)
def test_one_comment_is_made_or_brought_up_to_date(github, comments, asks):
    code, asked = github.run(step("Post it"), ("--paginate", comments))
    assert code == 0
    assert "--paginate repos/o/r/issues/5/comments?per_page=100" in asked[0]
    assert asks in f"{asked[1]} "
    assert "body=@report/report.md" in asked[1]


def test_nothing_is_posted_where_no_open_pull_request_has_the_commit_any_more(github):
    code, asked = github.run(step("Find the pull request"), ("repos/o/r/pulls", ""))
    assert (code, len(asked)) == (0, 1)
    assert not (github.folder / "output").exists()
    assert not (github.folder / "report").exists()


def test_from_the_moment_a_pull_request_is_found_the_comment_to_post_is_red(github):
    code, _ = github.run(step("Find the pull request"), ("repos/o/r/pulls", "5 main"))
    assert code == 0
    assert (github.folder / "output").read_text() == "number=5\ntarget=main\n"
    assert (
        "## ⛔ The report could not be made" in (github.folder / "report" / "report.md").read_text()
    )
    posting = [
        each
        for each in COMMENT["jobs"]["comment"]["steps"]
        if each.get("name") == "Post it" or "upload-artifact" in each.get("uses", "")
    ]
    assert len(posting) == 2
    assert all(each["if"].startswith("always()") for each in posting)


@pytest.mark.skipif(
    shutil.which("jq") is None, reason="needs jq, which stands for the one that gh has built in"
)
def test_only_a_pull_request_whose_head_is_the_previewed_commit_is_found():
    (query,) = re.findall(r"--jq '(map.*?)'\)", step("Find the pull request"))
    pulls = [
        {"number": number, "base": {"ref": "main"}, "head": {"sha": sha}}
        for number, sha in ((5, "old"), (6, "abc"))
    ]

    def found(sha):
        environment = {**os.environ, "HEAD": sha}
        done = subprocess.run(
            ["jq", "-r", query],  # noqa: S607 - as in the workflow
            input=json.dumps(pulls),
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        return done.stdout.strip()

    assert found("abc") == "6 main"
    assert found("gone") == ""


@pytest.fixture
def change(github):
    """A pull request of the stack `dev` in the folder of `github`, whose target has gone on since."""
    origin = github.folder / "o" / "r"
    origin.mkdir(parents=True)
    small_project(origin)
    git(origin, "branch", "pull")
    git(origin, "commit", "--quiet", "--allow-empty", "--message", "Later")
    base = git(origin, "rev-parse", "pull")
    git(origin, "checkout", "--quiet", "pull")
    (origin / "stacks" / "Pulumi.dev.yaml").write_text(
        (origin / "stacks" / "Pulumi.dev.yaml").read_text() + "# changed\n"
    )
    git(origin, "commit", "--quiet", "--all", "--message", "Change")
    head = git(origin, "rev-parse", "pull")
    git(origin, "update-ref", "refs/pull/5/head", head)
    git(origin, "checkout", "--quiet", "main")
    small_project(github.folder)
    return base, head


def test_the_base_is_where_the_branch_left_its_target(github, change):
    base, head = change
    environment = {"SERVER": str(github.folder), "HEAD": head}
    code, _ = github.run(step("Fetch the change"), **environment)
    assert code == 0
    assert (github.folder / "output").read_text() == f"base={base}\n"


def made(
    place: Place, change: tuple[str, str], files: dict[str, bytes], **environment: str
) -> tuple[int, str]:
    """The exit code of the step that makes the report of `files`, and what would be posted."""
    place.run(step("Find the pull request"), ("repos/o/r/pulls", "5 main"), HEAD=change[1])
    for name, content in files.items():
        path = place.folder / "events" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    settings = {"SERVER": str(place.folder), "HEAD": change[1], "BASE": change[0], **environment}
    place.run(step("Fetch the change"), **settings)
    code, _ = place.run(step("Make the report"), **settings)
    return code, (place.folder / "report" / "report.md").read_text()


def of_dev(content: bytes) -> bytes:
    return content.replace(b"dev::tiny", b"dev::inferplan")


CALM_STREAM = of_dev(stream(stack_step()))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "there is no preview"),
        ({"events-planned/dev.ndjson": b""}, "the stream is empty"),
        ({"events-planned/dev.ndjson": b"Segmentation fault"}, "its events are unreadable"),
        (
            {"events-dev/dev.ndjson": CALM_STREAM, "events-planned/dev.ndjson": CALM_STREAM},
            "it has 2 previews",
        ),
        (
            {"events-planned/other.ndjson": CALM_STREAM.replace(b"dev::", b"prod::")},
            "there is no preview",
        ),
        (
            {"events-planned/--html": b"x", "events-planned/a\nb.ndjson": b"x"},
            "there is no preview",
        ),
    ],
)
def test_whatever_is_lost_on_the_way_the_comment_is_red_and_names_the_stack(
    github, change, files, words
):
    code, text = made(github, change, files)
    assert code == 0
    assert text.startswith("<!-- inferplan:preview v1 ")
    assert "⛔" in text.splitlines()[1]
    assert "inferplan/dev" in text
    assert words in text


def test_a_whole_preview_is_reported_with_the_link_to_its_page(github, change):
    code, text = made(github, change, {"events-planned/dev.ndjson": CALM_STREAM})
    assert (code, "no changes" in text, "was not rehearsed" in text) == (0, True, True)
    assert "[full report](https://ci.example/8)" in text
    assert "⛔" not in text


def test_a_report_that_cannot_be_made_leaves_the_red_comment(github, change):
    code, text = made(github, change, {"events-planned/dev.ndjson": CALM_STREAM}, BASE="")
    assert code != 0
    assert "## ⛔ The report could not be made" in text


def test_a_fork_is_named_as_one(github, change):
    assert (
        "by the code of a fork"
        in made(github, change, {"events-planned/dev.ndjson": CALM_STREAM}, FORK="true")[1]
    )


def gitlab_note(
    place: Place, *answers: tuple[str, object], change: tuple[str, str] = ("", "abc")
) -> tuple[int, list[str]]:
    facts = {
        "CI_API_V4_URL": "https://gl.example/api/v4",
        "CI_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_IID": "2",
        "REPORT_TOKEN": "t",
    }
    facts |= {
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": change[0],
        "CI_COMMIT_SHA": change[1],
        "CI_PIPELINE_URL": "https://gl.example/p/1",
        # What `before_script` leaves in the shell.
        "judge": ".",
    }
    return place.run("\n".join(GITLAB["report"]["script"]), *answers, **facts)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, 3, "there is no preview"),
        pytest.param(b"nonsense", 3, "its events are unreadable", marks=pytest.mark.full),
        (CALM_STREAM, 0, "no changes"),
        pytest.param("no repository", 2, "The report could not be made", marks=pytest.mark.full),
    ],
)
def test_the_note_and_the_exit_code_say_what_came_of_the_plan(github, change, content, code, words):
    place = Place(github.folder, "curl")
    (place.folder / "events").mkdir()
    if isinstance(content, bytes):
        (place.folder / "events" / "dev.ndjson").write_bytes(content)
    else:
        change = ("", "") if content else change
    git(place.folder, "fetch", "--quiet", "o/r", "pull", "main")
    ended, asked = gitlab_note(
        place, ("&page=1", {"headers": "x-next-page: \r\n", "body": "[]"}), change=change
    )
    assert ended == code
    assert "-X POST" in asked[-1]
    assert words in (place.folder / "report.md").read_text()


def test_a_note_is_found_on_a_later_page(gitlab):
    (gitlab.folder / "events").mkdir()
    ours = json.dumps([{"id": 9, "body": "<!-- inferplan:preview v1 stacks= -->"}])
    pages = (
        ("&page=1", {"headers": "X-Next-Page: 2\r\n", "body": "[]"}),
        ("&page=2", {"headers": "x-next-page: \r\n", "body": ours}),
    )
    assert gitlab_note(gitlab, *pages)[1][-1].endswith("/merge_requests/2/notes/9")
