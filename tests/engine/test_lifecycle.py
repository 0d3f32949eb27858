"""The life of a project that `inferplan init` made, under Pulumi's own engine: up, again, judged by
its policy pack, two updates at once, another engine, a lost state, other names of the stack, its
namespace and a pool, rotated keys, a revert.

Each test leaves the stack as its file declares it, and the next one starts there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplan.rehearsal.cluster import clusters
from tests.engine.requirement import needs_pulumi
from tests.engine.test_real_engine import ROOT, run

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]

NAME = "rack-7"
PULUMI = ("--engine", "pulumi", "--yes")


class Project:
    """A project that `inferplan init` made, on a simulated cluster of its own."""

    def __init__(self, directory: Path) -> None:
        values = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PULUMI_CONFIG_PASSPHRASE", "INFERPLAN_STATE"))
        }
        self.state = directory / "state"
        self.environment = {
            **values,
            "INFERPLAN_STATE_DIR": str(self.state),
            "PYTHONPATH": str(ROOT),
        }
        arguments = ("init", NAME, "--where", "local", "--consumer", "web")
        run(self.environment, "inferplan", *arguments, cwd=directory)
        self.folder = directory / NAME
        (self.folder / ".venv").symlink_to(ROOT / ".venv")
        self.environment["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(self.folder / ".passphrase")
        self.cluster = self.state / "clusters" / f"{NAME}.local"
        self.plain = {
            **self.environment,
            "PULUMI_BACKEND_URL": (self.cluster / "pulumi").as_uri(),
            "INFERPLAN_KUBECONFIG": str(self.cluster / "kubeconfig"),
        }

    def __call__(self, *words: str, ok: bool | None = True) -> str:
        """What `inferplan` prints on both streams; `ok` None accepts any ending."""
        done = run(self.environment, "inferplan", *words, cwd=self.folder, check=False)
        text = done.stdout + done.stderr
        assert ok is None or (done.returncode == 0) is ok, text[-4000:]
        return text

    def pulumi(self, *words: str) -> str:
        return run(self.plain, "pulumi", *words, "--non-interactive", cwd=self.folder).stdout

    def file(self, stack: str = "local") -> Path:
        return self.folder / "stacks" / f"Pulumi.{stack}.yaml"

    def edit(self, old: str, new: str) -> None:
        text = self.file().read_text()
        assert old in text
        self.file().write_text(text.replace(old, new))

    def quiet(self, stack: str = "local") -> None:
        self.pulumi("preview", "--stack", stack, "--expect-no-changes")

    def objects(self) -> set[tuple[str, str]]:
        """Type and id of each Kubernetes object in the state."""
        deployment = json.loads(self.pulumi("stack", "export", "--stack", "local"))["deployment"]
        return {
            (each["type"], each["id"])
            for each in deployment["resources"]
            if each["type"].startswith("kubernetes:")
        }


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Iterator[Project]:
    created = Project(tmp_path_factory.mktemp("lifecycle"))
    yield created
    # A renamed stack has a cluster under its other name.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(created.state))
        for name in clusters():
            created("down", name.rpartition(".")[2], "--engine", "rehearsal", "--cluster", "--yes")


def test_plain_pulumi_without_the_cluster_names_the_command_that_starts_it(project):
    project.cluster.mkdir(parents=True)
    (project.cluster / "pulumi").mkdir()
    project.pulumi("stack", "init", "local")
    arguments = ("up", "--stack", "local", "--yes", "--skip-preview", "--non-interactive")
    done = run(project.plain, "pulumi", *arguments, cwd=project.folder, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "The simulated cluster of local does not exist" in said
    assert "inferplan up local" in said
    assert "kubernetes:" not in said
    shutil.rmtree(project.cluster)


def test_a_project_comes_up_passes_its_policies_and_never_mixes_two_engines(project):
    project("up", "local", "--engine", "rehearsal")
    refused = project("up", "local", *PULUMI, ok=False)
    assert "objects of a rehearsal, which Pulumi's state does not know" in refused
    # `auto` continues what is there, although the CLI is on PATH.
    assert "the rehearsal continues" in project("up", "local")
    project("down", "local")
    first, second = (project("up", "local") for _ in range(2))
    # The answer of a model takes a second, and shows nothing new after an update without changes.
    assert ("$ inferplan call" in first, "$ inferplan call" in second) == (True, False)
    assert " unchanged" in second
    assert " created (" not in second
    arguments = ("--stack", "local", "--expect-no-changes", "--policy-pack", "policies")
    judged = project.pulumi("preview", *arguments)
    assert "Policies:" in judged
    assert "mandatory" not in judged.partition("Policies:")[2]
    mixed = project("up", "local", "--engine", "rehearsal", ok=False)
    assert "the Pulumi CLI created it" in mixed
    assert "inferplan down local --engine pulumi" in mixed
    assert "UNKNOWN" not in mixed


@pytest.mark.full
def test_the_second_of_two_updates_waits_or_names_the_first(project):
    project.edit("maxModelLen: 8192", "maxModelLen: 4096")
    command = [str(Path(sys.executable).parent / "inferplan"), "up", "local", *PULUMI]
    with subprocess.Popen(
        command, cwd=project.folder, env=project.environment, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        next(line for line in first.stdout if "Updating" in line)
        # Stopped, it holds its lock for as long as the second one looks at it.
        pid = json.loads(next(_locks(project)).read_text())["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            refused = project("up", "local", *PULUMI, ok=False)
        finally:
            os.kill(pid, signal.SIGCONT)
        first.stdout.read()
        assert first.wait(300) == 0
    assert f"is being updated by process {pid}" in refused
    assert f"kill -INT {pid}" in refused
    project.quiet()


def _locks(project: Project) -> Iterator[Path]:
    yield from (project.cluster / "pulumi" / ".pulumi" / "locks").rglob("*.json")


@pytest.mark.full
@pytest.mark.full
def test_a_lost_state_is_named_and_a_copy_of_it_restores_the_stack(project, tmp_path):
    copy = tmp_path / "state.json"
    copy.write_text(project.pulumi("stack", "export", "--stack", "local"))
    before = project.objects()
    shutil.rmtree(project.cluster / "pulumi" / ".pulumi" / "stacks")
    for verb in ("up", "recover"):
        said = project(verb, "local", *PULUMI, ok=False)
        assert "PULUMI_BACKEND_URL" in said
        assert "pulumi stack import --stack local --file COPY" in said
    # Nothing was deleted, and nothing says that it was.
    assert "nothing was deleted from the cluster" in project("down", "local", *PULUMI)
    project.pulumi("stack", "import", "--stack", "local", "--file", str(copy))
    project("up", "local", *PULUMI)
    assert project.objects() == before
    project.quiet()


@pytest.mark.full
def test_a_rotated_key_reaches_the_gateway_and_a_revert_takes_it_back(project):
    text, before = project.file().read_text(), project.objects()
    project.edit("web: {keys: [1]}", "web: {keys: [2, 1]}")
    project.edit("keyHistory: {web: {issued: 1}}", "keyHistory: {web: {issued: 2}}")
    project("up", "local", *PULUMI)
    project.quiet()
    project.file().write_text(text)
    project("up", "local", *PULUMI)
    project.quiet()
    assert project.objects() == before


@pytest.mark.full
def test_another_name_of_the_namespace_and_of_a_pool_moves_everything(project):
    project.edit("  inferplan:nodePools:\n    l40s:", "  inferplan:nodePools:\n    l40s-b2:")
    project.edit("pool: l40s", "pool: l40s-b2")
    project.edit("config:\n", "config:\n  inferplan:namespace: models-2\n")
    said = project("up", "local", *PULUMI)
    assert "Namespace inference is deleted" in said
    project.quiet()
    places = {id_.partition("/")[0] for _, id_ in project.objects() if "/" in id_}
    assert places == {"models-2"}
    assert {id_ for type_, id_ in project.objects() if type_.endswith(":Node")} == {
        "l40s-b2-0",
        "system-0",
        "system-1",
    }


@pytest.mark.full
def test_a_renamed_stack_gets_its_own_cluster_and_names_what_it_left(project):
    project.pulumi("stack", "rename", "east-2", "--stack", "local")
    said = project("up", "east-2", *PULUMI)
    move = "git mv policies/stacks/local.json policies/stacks/east-2.json"
    remove = "inferplan down local --engine rehearsal --cluster --yes"
    assert "If east-2 was renamed from local" in said
    assert move in said
    assert f"the simulated cluster {NAME}.local belongs to no stack of this project" in said
    assert remove in said
    settings = project.folder / "policies" / "stacks" / "local.json"
    settings.rename(settings.with_name("east-2.json"))
    project(*remove.split()[1:])
    assert not project.cluster.exists()
    said = project("up", "east-2", *PULUMI)
    assert "was renamed" not in said
    assert "35 unchanged" in said
    project("down", "east-2", *PULUMI, "--cluster")
