"""Changes of mind under Pulumi's own engine, through the commands that a person types."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.pulumi_engine.secrets import new_salt, unlock
from inferplan.rehearsal.cluster import Cluster
from tests.engine.own_project import ROOT, own_project
from tests.engine.requirement import needs_pulumi
from tests.scenarios.play import Ended, play
from tests.scenarios.transitions import ENDINGS, FOLLOWING, TRANSITIONS, Config, Transition

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]

STACK = "scenarios"
PASSPHRASE = "of the scenarios"  # noqa: S105 - made for this test, opens nothing else
SIGNALS = {"interrupted": signal.SIGINT, "killed": signal.SIGKILL}
# A change as the CLI tells it where there is no terminal: ` +  kubernetes:core/v1:Secret keys
# creating (0s)`.
_CHANGE = re.compile(r"^\s*[+~-]{1,2}\s+kubernetes:\S+ \S+ (creating|updating|deleting)\b")
SAMPLE = {
    ("vllm to triton", "interrupted at 3", "revert"),
}


class Pulumi:
    """The Pulumi CLI behind `inferplan`, on a cluster, a project and a backend of its own."""

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        self.at: Config | None = None
        self.project = own_project(directory)
        (directory / "home").mkdir()
        # A home of its own, with the plugins of the user's: without them the CLI downloads the
        # provider.
        plugins = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        (directory / "home" / "plugins").symlink_to(plugins)
        programs = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": cluster.directory.as_uri(),
            "PULUMI_HOME": str(directory / "home"),
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "INFERPLAN_KUBECONFIG": str(cluster.kubeconfig),
            "PYTHONPATH": f"{ROOT / 'tests' / 'scenarios' / 'site'}:{ROOT}",
        }
        self._salt, _ = new_salt(PASSPHRASE)
        # What a trial may have and a policy would block: plain HTTP, images without digests.
        lenient = {"levels": dict.fromkeys(_blocking_rules(), "advisory")}
        (self.project / "policies" / "stacks" / f"{STACK}.json").write_text(json.dumps(lenient))

    def update(self, config: Config, ending: str = "succeeds") -> Ended:
        self.write(config)
        kind, _, number = ending.partition(" at ")
        code, cut, text = self._up(SIGNALS.get(kind), int(number or 0))
        return Ended(ok=code == 0, cut=cut, text=text[-3000:])

    def quiet(self, config: Config) -> str:
        self.write(config)
        done = self._run(
            "pulumi",
            "preview",
            "--stack",
            STACK,
            "--refresh",
            "--expect-no-changes",
            "--diff",
            "--non-interactive",
        )
        return "" if done.returncode == 0 else (done.stdout + done.stderr)[-3000:]

    def owned(self) -> set[tuple[str, str, str]]:
        deployment = json.loads(self.exported())["deployment"]
        assert not deployment.get("pending_operations")
        assert not [each["urn"] for each in deployment["resources"] if each.get("delete")]
        kubernetes = [
            each for each in deployment["resources"] if each["type"].startswith("kubernetes:")
        ]
        return {(each["inputs"]["kind"], *_place(each["id"])) for each in kubernetes}

    def exported(self) -> str:
        return self._run("pulumi", "stack", "export", "--stack", STACK).stdout

    def export_error(self) -> str:
        return self._run("pulumi", "stack", "export", "--stack", STACK).stderr

    def _up(self, how: signal.Signals | None, number: int) -> tuple[int, bool, str]:
        command = [
            str(Path(sys.executable).parent / "inferplan"),
            "up",
            STACK,
            "--engine",
            "pulumi",
            "--yes",
        ]
        process = subprocess.Popen(
            command,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        lines, left = [], number
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if how is not None and left > 0 and _CHANGE.match(line):
                left -= 1
                if left == 0:
                    # As a terminal's Ctrl-C, or an out-of-memory killer that takes the whole group.
                    os.killpg(process.pid, how)
        return process.wait(600), how is not None and left == 0, "".join(lines)

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def write(self, config: Config) -> None:
        values: dict[str, Any] = {f"inferplan:{key}": value for key, value in config.items()}
        values["inferplan:apiKeySeed"] = {
            "secure": unlock(PASSPHRASE, self._salt).encrypt(config["apiKeySeed"])
        }
        written = yaml.safe_dump({"encryptionsalt": self._salt, "config": values}, sort_keys=False)
        (self.project / "stacks" / f"Pulumi.{STACK}.yaml").write_text(written)


def _blocking_rules() -> list[str]:
    from inferplan.policies.engine.registry import all_rules

    return sorted(all_rules())


def _place(id_: str) -> tuple[str, str]:
    namespace, _, name = id_.rpartition("/")
    return namespace, name


@pytest.fixture(scope="module")
def engine(shared_engine) -> Iterator[Pulumi]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", shared_engine.environment["INFERPLAN_STATE_DIR"])
        yield shared_engine


def cases() -> Iterator[object]:
    for transition in TRANSITIONS:
        for ending in ENDINGS:
            for following in FOLLOWING:
                marks = [] if (transition.name, ending, following) in SAMPLE else [pytest.mark.full]
                yield pytest.param(
                    transition,
                    ending,
                    following,
                    marks=marks,
                    id=f"{transition.name}-{ending}-{following}",
                )


@pytest.mark.parametrize(("transition", "ending", "following"), list(cases()))
def test_a_change_of_mind_ends_converged_and_without_a_gap(
    engine, transition: Transition, ending: str, following: str
):
    play(engine, transition, ending, following)
