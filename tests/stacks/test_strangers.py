"""A stranger's repository: read as data, without running anything of it or reading outside of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inferplan.commands.audit.sources import helm
from inferplan.commands.main import run
from inferplan.progress import silent
from inferplan.review.reading.reader import read_file
from tests.checkouts import ROOT, git
from tests.patience import PATIENCE_SECONDS

SECRETS = {"PULUMI_CONFIG_PASSPHRASE": "inferplan-example", "AWS_SECRET_ACCESS_KEY": "canary-cloud"}
TRAP = """
import os, pathlib
pathlib.Path({marker!r}).open("a").write(__file__ + str(os.environ.get("PULUMI_CONFIG_PASSPHRASE")))
"""
OUTSIDE = ("/etc", "../..", "stacks/../../outside")
PROJECT = """name: inferplan
main: infra
stackConfigDir: stacks
runtime: {name: python, options: {virtualenv: evil, toolchain: pip}}
plugins: {providers: [{name: aws, path: ./evil}]}
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose every program leaves a mark; its second commit has one model less."""
    folder, marker = tmp_path / "repository", tmp_path / "marker"
    stack = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    python = TRAP.format(marker=str(marker))
    shell = f"#!/bin/sh\necho $0 >> {marker}\nexit 0\n"
    files = {
        "Pulumi.yaml": PROJECT,
        "stacks/Pulumi.local.yaml": stack,
        **dict.fromkeys(("sitecustomize.py", "usercustomize.py", "conftest.py"), python),
        **dict.fromkeys(("inferplan/__init__.py", "inferplan/commands/main.py"), python),
        **dict.fromkeys(("infra/__main__.py", "yaml.py", "pulumi/__init__.py"), python),
        **dict.fromkeys(("evil/bin/python", "evil/pulumi-resource-aws", "monitor.sh"), shell),
        ".gitattributes": "* filter=evil diff=evil\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "stacks" / "Pulumi.home.yaml").symlink_to(Path.home())
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Base")
    for number, outside in enumerate(OUTSIDE):
        text = PROJECT.replace("stackConfigDir: stacks", f"stackConfigDir: {outside}")
        (folder / "Pulumi.yaml").write_text(text)
        git(folder, "commit", "--quiet", "--all", "--message", "Evil")
        git(folder, "tag", f"evil-{number}")
    (folder / "Pulumi.yaml").write_text(PROJECT)
    changed = stack.replace("replicas: 2", "replicas: 3", 1)
    assert changed != stack
    (folder / "stacks" / "Pulumi.local.yaml").write_text(changed)
    git(folder, "commit", "--quiet", "--all", "--message", "Head")
    for setting in (
        *("core.fsmonitor", "core.pager", "core.sshCommand", "diff.evil.textconv", "core.editor"),
        *("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "diff.external"),
    ):
        git(folder, "config", setting, str(folder / "monitor.sh"))
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        (hooks / name).write_text(shell)
        (hooks / name).chmod(0o755)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    # The project's own program is the reviewer's.
    (folder / "infra" / "__main__.py").write_text(
        (ROOT / "inferplan/infra/__main__.py").read_text()
    )
    monkeypatch.chdir(folder)
    return folder, marker


def ended(*arguments: object) -> int:
    began = time.monotonic()
    with pytest.raises(SystemExit) as end:
        run(list(map(str, arguments)))
    assert time.monotonic() - began < 60
    return int(end.value.code or 0)


def test_a_revision_is_planned_from_its_data_and_nothing_of_it_runs(repository, tmp_path, capsys):
    _folder, marker = repository
    events = tmp_path / "events.ndjson"
    assert ended("plan", "local", "--against", "HEAD~4", "--events", events) == 0
    assert not marker.exists(), marker.read_text()
    assert "--trust runs its own code" in capsys.readouterr().err
    counts = read_file(events).counts
    assert counts["update"] > 0
    # Both plans are without secrets, so that nothing differs but what was changed.
    assert counts["same"] > 2 * counts["update"]
    assert "PULUMI_CONFIG_PASSPHRASE" not in os.environ


@pytest.mark.usefixtures("repository")
def test_a_revision_that_changes_nothing_differs_in_nothing(capsys):
    # The child has another home folder, and the same cluster.
    assert ended("plan", "local", "--against", "HEAD") == 0
    assert re.search(r"^\d+ resources: \d+ unchanged$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("number", range(3))
def test_a_folder_of_stacks_outside_of_the_project_is_rejected(repository, capsys, number):
    _folder, marker = repository
    assert ended("plan", "local", "--against", f"evil-{number}") == 2
    assert "leads out of the project" in capsys.readouterr().err
    assert not marker.exists()


def test_changed_stacks_runs_no_program_of_the_repository(repository, capsys):
    _folder, marker = repository
    assert ended("changed-stacks", "HEAD~1") == 0
    assert "local" in capsys.readouterr().out
    assert not marker.exists(), marker.read_text()


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n"
    for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize("source", ["bomb.yaml", "linked"])
def test_import_reads_no_link_and_no_bomb(repository, capsys, source):
    folder, marker = repository
    (folder / "bomb.yaml").write_text(f"apiVersion: v1\nkind: ConfigMap\n{BOMB}")
    (folder / "linked").mkdir()
    (folder / "linked" / "manifest.yaml").symlink_to("/etc/hostname")
    began = time.monotonic()
    assert ended("import", source, "--accelerator", "nvidia-l40s") == 2
    assert time.monotonic() - began < 10
    message = capsys.readouterr().err
    assert "aliases" in message or "points outside the folder" in message
    assert not marker.exists()


def test_validate_reads_no_link_and_no_bomb(repository, capsys):
    folder, marker = repository
    (folder / "stacks" / "Pulumi.bomb.yaml").write_text(
        f"config:\n  inferplan:models: {{}}\n{BOMB}"
    )
    began = time.monotonic()
    assert ended("validate", "bomb") == 2
    assert time.monotonic() - began < 10
    assert not marker.exists()
    assert ended("validate", "home") == 2
    assert str(Path.home() / ".") not in capsys.readouterr().out


NODES = ("--nodes", "nodes.yaml")
CHART = {
    "nodes.yaml": "kind: Fleet\npools: [{name: cpu, count: 1}]\n",
    "chart/Chart.yaml": "apiVersion: v2\nname: evil\nversion: 1.0.0\n",
    "chart/templates/a.yaml": 'a: {{ .Files.Get "../../canary" }}{{ tpl (.Files.Get "linked") . }}\n',
    "jinja.yaml": "a: {% include '/etc/passwd' %}{{ cycler.__init__.__globals__.os.popen('touch mark') }}\n",
    "kustomization/kustomization.yaml": "resources: [../../outside]\ngenerators: [exec.yaml]\n",
    "kustomization/exec.yaml": "apiVersion: x/v1\nkind: X\nmetadata: {name: x, annotations: {config.kubernetes.io/function: "
    '"exec: {path: ../monitor.sh}"}}\n',
    "bomb.yaml": f"apiVersion: v1\nkind: ConfigMap\n{BOMB}",
}


@pytest.mark.parametrize(
    ("arguments", "codes", "words"),
    [
        (["validate"], {2}, "home"),
        (["validate", "local"], {0}, ""),
        (["changed-stacks", "HEAD~1"], {0}, "local"),
        (["import", "jinja.yaml", "--accelerator", "nvidia-l40s"], {2}, "jinja.yaml"),
        (["import", "bomb.yaml", "--accelerator", "nvidia-l40s"], {2}, "aliases"),
        (["audit", "chart", *NODES], {2}, "linked"),
        (["audit", "jinja.yaml", *NODES], {2}, "jinja.yaml"),
        (["audit", "bomb.yaml", "--from", "HEAD~1:stacks", *NODES], {2}, ""),
        (["audit", "kustomization", *NODES], {2}, "kustomization"),
        (["report", "jinja.yaml"], {1, 2, 3}, ""),
        (["images", "local"], {0}, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_in_the_checkout_runs_nothing_of_it_as_a_hook_would(
    repository, tmp_path, arguments, codes, words
):
    """A process of its own, as a pre-commit hook or a pipeline starts it in the checkout: Python
    reads what lies there before any of our code runs.
    """
    folder, marker = repository
    (tmp_path / "canary").write_text("canary-outside")
    for name, text in CHART.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "chart" / "linked").symlink_to(tmp_path / "canary")
    program = Path(sys.executable).with_name("inferplan")
    if arguments[0] == "audit":
        helm(silent)  # it is built once, which takes minutes on a busy machine
    began = time.monotonic()
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode in codes, done.stderr
    assert words in done.stdout + done.stderr
    assert not marker.exists(), marker.read_text()
    assert not (folder / "mark").exists()
    for secret in ("canary-outside", "root:x:0", "Traceback", *SECRETS.values()):
        assert secret not in done.stdout + done.stderr
    assert time.monotonic() - began < 10 * PATIENCE_SECONDS / 24
