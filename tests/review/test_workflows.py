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
EXAMPLE = ROOT / "docs" / "audit.example.yml"
TEMPLATE = ROOT / "inferplan" / "commands" / "init" / "template" / "dot-github" / "workflows"
GO = shutil.which("go") or next(
    (path for path in ("/usr/local/go/bin/go",) if Path(path).is_file()), None
)


def parsed(path: Path):
    return yaml.safe_load(path.read_text())


def steps(path: Path):
    return [step for job in parsed(path)["jobs"].values() for step in job["steps"]]


def test_there_are_the_six_workflows():
    assert [path.stem for path in WORKFLOWS] == [
        "comment",
        "drift",
        "preview",
        "release",
        "test",
        "up",
    ]


@pytest.mark.parametrize("name", ["comment", "drift", "preview", "up"])
def test_a_new_repository_gets_the_workflows_of_this_one(name):
    own = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
    setup = (
        "python -m venv .venv && .venv/bin/pip install --quiet --require-hashes --requirement"
        " requirements.txt"
    )
    assert (TEMPLATE / f"{name}.yml").read_text() == own.replace("make setup", setup).replace(
        "inferplan/policies", "policies"
    )
    assert len(list(TEMPLATE.iterdir())) == 4


@pytest.mark.parametrize("path", [*WORKFLOWS, EXAMPLE], ids=lambda path: path.stem)
def test_every_action_is_pinned_by_a_commit_with_its_version_beside_it(path):
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert uses
    assert all(re.fullmatch(r"[\w-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in uses)


@pytest.mark.parametrize("path", [*WORKFLOWS, EXAMPLE], ids=lambda path: path.stem)
def test_a_workflow_starts_with_reading_and_each_job_says_what_more_it_needs(path):
    assert parsed(path)["permissions"] == {"contents": "read"}
    granted = {
        right
        for job in parsed(path)["jobs"].values()
        for right, level in job.get("permissions", {}).items()
        if level == "write"
    }
    rights = {
        "comment": {"pull-requests"},
        "drift": {"id-token", "issues"},
        "preview": {"id-token"},
        "up": {"id-token"},
    }
    rights["release"] = {"attestations", "id-token"}
    assert granted == rights.get(path.stem, set())


def test_code_of_a_pull_request_never_runs_with_the_right_to_write_or_from_a_fork_with_credentials():
    preview = parsed(ROOT / ".github" / "workflows" / "preview.yml")
    assert set(preview[True]) == {"pull_request"}
    with_credentials = [
        job
        for job in preview["jobs"].values()
        if "id-token" in job.get("permissions", {}) or "secrets." in str(job)
    ]
    assert [
        job["if"].startswith("github.event.pull_request.head.repo.full_name == github.repository")
        for job in with_credentials
    ] == [True]
    checkouts = [
        step
        for step in steps(ROOT / ".github" / "workflows" / "comment.yml")
        if "checkout" in step.get("uses", "")
    ]
    assert all("ref" not in step["with"] for step in checkouts)


def test_the_comment_is_found_by_its_marker_over_all_pages_and_made_after_failures_too():
    from inferplan.review.rendering.markdown import marker
    from inferplan.review.report import make_report

    text = (ROOT / ".github" / "workflows" / "comment.yml").read_text()
    (wanted,) = re.findall(r'startswith\("(.*?)"\)', text)
    assert marker(make_report([])).startswith(wanted)
    assert "--paginate" in text
    assert all(marked.startswith(wanted) for marked in re.findall(r"printf '(<.*?)'", text))


def test_the_audit_of_a_repository_of_charts_uses_options_that_exist():
    [line] = [step["run"] for step in steps(EXAMPLE) if "inferplan audit" in step.get("run", "")]
    command = [str(Path(sys.executable).parent / "inferplan"), "audit", "--help"]
    told = subprocess.run(
        command, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=True
    ).stdout
    options = re.findall(r"(?<= )--[a-z-]+", line)
    assert "--report" in options
    assert not [each for each in options if each not in told]


@pytest.mark.parametrize("path", [*WORKFLOWS, EXAMPLE], ids=lambda path: path.stem)
def test_no_expression_is_pasted_into_a_script(path):
    assert not [step["run"] for step in steps(path) if "${{" in step.get("run", "")]


def test_scripts_are_sound_bash():
    for path in (*WORKFLOWS, EXAMPLE):
        for step in steps(path):
            if "run" in step:
                checked = subprocess.run(
                    ["bash", "-n"],  # noqa: S607 - any bash will do
                    input=step["run"],
                    text=True,
                    capture_output=True,
                    check=False,
                )
                assert not checked.stderr, (path, checked.stderr)


def test_zizmor_finds_nothing():
    judged = subprocess.run(
        [
            str(Path(sys.executable).parent / "zizmor"),
            "--offline",
            "--no-progress",
            str(ROOT / ".github" / "workflows"),
            *map(str, (EXAMPLE, *TEMPLATE.iterdir())),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout


@pytest.mark.skipif(GO is None, reason="actionlint is built with go, which is not on this machine")
def test_actionlint_finds_nothing():
    # Go keeps the program of a tool in its build cache, so that only the first run links it.
    tool = [str(GO), "-C", str(Path(__file__).parent / "actionlint"), "tool", "actionlint"]
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    built = subprocess.run(
        [*tool, "-version"], env=environment, capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(f"actionlint cannot be built here: {built.stderr.strip().splitlines()[-1:]}")
    workflows = [str(path) for path in (*WORKFLOWS, EXAMPLE, *TEMPLATE.iterdir())]
    judged = subprocess.run(
        [*tool, *workflows], env=environment, capture_output=True, text=True, check=False
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr


# What the image of the runners has, as far as it is used here: github.com/actions/runner-images,
# Ubuntu 24.04, read on 2026-11-22.
ON_THE_RUNNER = {
    "gh",
    "git",
    "jq",
    "make",
    "bash",
    "find",
    "sort",
    "head",
    "mkdir",
    "touch",
    "xargs",
    "cat",
    "cp",
    "rm",
    "sha256sum",
}
BUILT_IN = {
    "cd",
    "echo",
    "printf",
    "exit",
    "mapfile",
    "if",
    "then",
    "else",
    "fi",
    "for",
    "do",
    "done",
    "[",
    "true",
    "test",
    "local",
    "export",
    "in",
}
INSTALLED_BY = {
    "pulumi": "pulumi/actions@",
    ".venv/bin/inferplan": "make setup",
    "inferplan": "python3 -m pip install",
    "go": "actions/setup-go@",
    "python3": "actions/setup-python@",
}


def programs(script: str) -> set[str]:
    """The programs that a script of a workflow calls."""
    script = re.sub(r"(?m)^\s*#.*$", "", script.replace("\\\n", " "))
    found = set()
    quoted = re.sub(r"'[^']*'", "Q", script)
    for part in re.split(
        r"\|\||&&|[|;\n]|\$\(|<\(|\bthen\b|\bdo\b|\belse\b|\belif\b|\bif\b", quoted
    ):
        words = [word for word in part.split() if not re.fullmatch(r"!|\w+=.*", word)]
        if words and re.fullmatch(r"[.\w/-]+", words[0]) and not re.match(r"\w+=\(", part.strip()):
            found.add(words[0])
    return found - BUILT_IN


def test_the_programs_of_a_script_are_found():
    script = (
        'x="$(gh api y | head -n 1)"\nif [ -n "$x" ]; then pulumi up || exit 1; fi\nmapfile -t a <'
        ' <(jq -r . <<< "$b")\n.venv/bin/inferplan plan \\\n  --all\n'
    )
    assert programs(script) == {"gh", "head", "pulumi", "jq", ".venv/bin/inferplan"}


@pytest.mark.parametrize("path", [*WORKFLOWS, EXAMPLE], ids=lambda path: path.stem)
def test_every_program_of_a_script_is_on_the_runner_or_installed_by_a_step_before(path):
    for name, job in parsed(path)["jobs"].items():
        before = ""
        for each in job["steps"]:
            for program in programs(each.get("run", "")) - ON_THE_RUNNER:
                wanted = INSTALLED_BY.get(program)
                own = each.get("run", "").partition(program)[0]
                assert wanted is not None, f"{path.stem}.{name}: nothing installs {program}"
                assert wanted in before + own, (
                    f"{path.stem}.{name}: {program} is called before {wanted}"
                )
            before += f"{each.get('uses', '')}\n{each.get('run', '')}\n"


def test_pulumi_finds_the_hash_locked_environment_without_uv_on_the_path():
    for project in ("Pulumi.yaml", "inferplan/policies/PulumiPolicy.yaml"):
        options = yaml.safe_load((ROOT / project).read_text())["runtime"]["options"]
        # uv's toolchain needs `uv` on PATH and runs `uv sync`, which resolves packages without
        # hashes; pip's takes what is there.
        assert options.get("toolchain", "pip") == "pip"
        assert (ROOT / project).parent.joinpath(options["virtualenv"]).resolve() == ROOT / ".venv"
    # The file beside the program serves `pulumi install` in a fresh clone; the pack has the same
    # environment.
    assert not list(ROOT.glob("requirements.txt"))
    assert not list((ROOT / "inferplan" / "policies").glob("requirements.txt"))


def test_what_was_approved_is_what_is_brought_up():
    jobs = parsed(ROOT / ".github" / "workflows" / "up.yml")["jobs"]
    assert jobs["up"]["needs"] == ["stacks", "plan"]
    assert jobs["up"]["environment"] == "${{ matrix.stack }}"
    saved = [
        each["run"] for each in jobs["plan"]["steps"] if "pulumi preview" in each.get("run", "")
    ]
    applied = [each["run"] for each in jobs["up"]["steps"] if "pulumi up" in each.get("run", "")]
    assert ["--save-plan plan/plan.json" in each for each in saved] == [True]
    assert ["--plan plan/plan.json" in each for each in applied] == [True]


def test_a_change_is_compared_with_where_it_left_its_target():
    jobs = parsed(ROOT / ".github" / "workflows" / "preview.yml")["jobs"]
    assert "git merge-base" in str(jobs["stacks"])
    for name in ("plan", "rehearse"):
        assert jobs[name]["env"]["BASE"] == "${{ needs.stacks.outputs.base }}"
    (checkout,) = [each for each in jobs["preview"]["steps"] if "checkout" in each.get("uses", "")]
    assert checkout["with"]["ref"] == "${{ github.sha }}"


@pytest.mark.parametrize("job", ["preview", "plan"])
def test_a_change_is_judged_by_the_packages_and_the_pack_of_its_base(tmp_path, job):
    from tests.checkouts import git

    steps_of = parsed(TEMPLATE / "preview.yml")["jobs"][job]["steps"]
    (install,) = [each for each in steps_of if each.get("id") == "judge"]
    judging = next(each for each in steps_of if "$JUDGE" in each.get("run", ""))
    assert steps_of.index(install) < steps_of.index(judging)
    assert judging["env"]["JUDGE"] == "${{ steps.judge.outputs.folder || '.' }}"
    checkout, programs_ = tmp_path / "checkout", tmp_path / "bin"
    rules, settings = checkout / "policies" / "__main__.py", checkout / "policies" / "stacks"
    settings.mkdir(parents=True)
    programs_.mkdir()
    # A Python that notes which packages it was told to install, and where.
    (programs_ / "python").write_text(
        "#!/bin/sh\nmkdir -p .venv/bin\n"
        "printf '#!/bin/sh\\ncat requirements.txt > .venv/packages\\n' > .venv/bin/pip\n"
        "chmod +x .venv/bin/pip\n"
    )
    (programs_ / "python").chmod(0o755)
    git(checkout, "init", "--quiet", "--initial-branch", "main")
    for commit in ("base", "head"):
        rules.write_text(commit)
        (settings / "blue.json").write_text(commit)
        (checkout / "requirements.txt").write_text(f"inferplan=={commit}")
        git(checkout, "add", "--all")
        git(checkout, "commit", "--quiet", "--message", commit)
    environment = {
        **os.environ,
        "BASE": git(checkout, "rev-parse", "HEAD^1"),
        "PATH": f"{programs_}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    line = ["bash", "-e", "-c", install["run"]]
    subprocess.run(line, cwd=checkout, env=environment, check=True)
    judge = tmp_path / "judge"
    assert (tmp_path / "output").read_text() == f"folder={judge}\n"
    assert (judge / ".venv" / "packages").read_text() == "inferplan==base"
    assert (judge / "policies" / "__main__.py").read_text() == "base"
    assert (judge / "policies" / "stacks" / "blue.json").read_text() == "head"
    assert (checkout / "policies" / "__main__.py").read_text() == "head"


def test_the_policy_pack_of_a_new_repository_runs_in_the_environment_of_its_own_folder():
    pack = (TEMPLATE.parents[1] / "policies" / "PulumiPolicy.yaml.j2").read_text()
    assert "virtualenv: ../.venv" in pack


def test_a_plan_is_judged_by_the_pack_of_its_base_with_its_own_settings(tmp_path):
    from tests.checkouts import git

    job = parsed(ROOT / ".github" / "workflows" / "preview.yml")["jobs"]["plan"]
    (restore,) = [
        each
        for each in job["steps"]
        if each.get("name") == "Judge with the policy pack of the base"
    ]
    judging = next(each for each in job["steps"] if "inferplan plan" in each.get("run", ""))
    assert job["steps"].index(restore) < job["steps"].index(judging)
    rules, settings = (
        tmp_path / "inferplan" / "policies" / "rules",
        tmp_path / "inferplan" / "policies" / "stacks" / "blue.json",
    )
    rules.mkdir(parents=True)
    settings.parent.mkdir()
    (rules / "pods.py").write_text("strict")
    (rules / "roles.py").write_text("strict")
    settings.write_text("old")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    for commit in ("base", "head"):
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", commit)
        if commit == "base":
            (rules / "pods.py").unlink()
            (rules / "roles.py").write_text("lax")
            (rules / "override.py").write_text("patches the others")
            settings.write_text("new")
    environment = {**os.environ, "BASE": git(tmp_path, "rev-parse", "HEAD^1")}
    subprocess.run(["bash", "-e", "-c", restore["run"]], cwd=tmp_path, env=environment, check=True)  # noqa: S607 - any bash will do
    assert {each.name: each.read_text() for each in rules.iterdir()} == {
        "pods.py": "strict",
        "roles.py": "strict",
    }
    assert settings.read_text() == "new"
