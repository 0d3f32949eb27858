"""From the wheel to a rehearsed stack of one's own, in an environment that does not have the
checkout.

`make test` plans from the wheel without the checkout in tests/unit/test_package.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest

from tests.checkouts import git
from tests.wheels import ROOT, fresh_environment, release

pytestmark = pytest.mark.cluster
BUDGET_SECONDS = 60


@pytest.mark.full
def test_three_commands_lead_from_the_wheel_to_a_rehearsed_stack(tmp_path):
    release(tmp_path / "dist")
    [wheel] = (tmp_path / "dist").glob("*.whl")
    state = {
        "INFERPLAN_STATE_DIR": str(tmp_path / "state"),
        "PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin",
        "COLUMNS": "1000",
    }
    environment = {
        name: os.environ[name]
        for name in ("HOME", "INFERPLAN_CACHE_DIR", "XDG_CACHE_HOME")
        if name in os.environ
    } | state
    folder = tmp_path / "acme"

    def run(*arguments, cwd=tmp_path):
        line = [str(tmp_path / "venv" / "bin" / "inferplan"), *arguments]
        return subprocess.run(
            line,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    began = time.monotonic()
    programs = fresh_environment(tmp_path / "venv", wheel)
    assert run("init", "acme").returncode == 0
    up = run("up", "local", "--project", "acme")
    seconds = time.monotonic() - began
    try:
        assert up.returncode == 0, up.stderr[-3000:]
        assert "qwen-3-8b   vllm     l40s   1/1" in up.stdout
        assert seconds < BUDGET_SECONDS
        # Nothing comes from the checkout.
        where = subprocess.run(
            [programs / "python", "-c", "import inferplan; print(inferplan.__file__)"],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        assert not where.stdout.startswith(str(ROOT))
        # What `up` suggests works as printed, from the same folder.
        for line in ("status local --project acme", "plan local --project acme"):
            assert f"inferplan {line}  #" in up.stdout
            assert run(*line.split()).returncode == 0
        again = run("up", "local", cwd=folder)
        assert "0 objects changed" in again.stderr, again.stderr[-2000:]
    finally:
        assert run("down", "local", "--cluster", "--project", "acme").returncode == 0


@pytest.mark.full
def test_the_commands_of_the_workflows_report_and_rehearse_a_change(tmp_path):
    release(tmp_path / "dist")
    [wheel] = (tmp_path / "dist").glob("*.whl")
    programs = fresh_environment(tmp_path / "venv", wheel)
    environment = {
        **os.environ,
        "PULUMI_CONFIG_PASSPHRASE": "one of my own",
        "INFERPLAN_STATE_DIR": str(tmp_path / "state"),
        "COLUMNS": "1000",
    }
    folder = tmp_path / "acme"

    def run(*arguments, code=0):
        line = [str(programs / "inferplan"), *arguments]
        cwd = folder if folder.is_dir() else tmp_path
        done = subprocess.run(
            line,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (arguments, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    run("init", "acme")
    shutil.rmtree(folder / ".github")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    stack = folder / "stacks" / "Pulumi.local.yaml"
    for commit in ("base", "head"):
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", commit)
        if commit == "head":
            break
        stack.write_text(
            stack.read_text()
            .replace("nodes: 1}", "nodes: 2}")
            .replace("maxModelLen: 8192", "maxModelLen: 8192\n      replicas: 2")
        )
    assert run("changed-stacks", "HEAD^1", "HEAD") == '["local"]\n'
    run("check", "local")
    run("plan", "local", "--against", "HEAD^1", "--events", str(tmp_path / "local.ndjson"))
    run(
        "report",
        str(tmp_path / "local.ndjson"),
        "--base",
        "HEAD^1",
        "--markdown",
        str(tmp_path / "report.md"),
        code=0,
    )
    report = (tmp_path / "report.md").read_text()
    assert "qwen-3-8b" in report
    assert "could not be" not in report
    found = run(
        "rehearse-change",
        "HEAD^1",
        "HEAD",
        "--stack",
        "local",
        "--save",
        str(tmp_path / "local.findings.json"),
    )
    assert "ready" in found
