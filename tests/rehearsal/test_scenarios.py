"""Changes under the rehearsal: each update can succeed, fail, be interrupted or killed, and be
repeated, reverted or redirected.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplan.rehearsal.apply.run import applied
from inferplan.rehearsal.cluster import Cluster, delete, start
from tests.scenarios.play import Ended, play
from tests.scenarios.transitions import ENDINGS, FOLLOWING, TRANSITIONS, Config, Transition

# `make test` plays one of them under the Pulumi CLI.
pytestmark = [pytest.mark.cluster, pytest.mark.full]

ROOT = Path(__file__).resolve().parents[2]
STACK = "scenarios"


class Rehearsal:
    """The rehearsal's engine on a cluster of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.at: Config | None = None
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.worker"],
            cwd=ROOT,
            env=os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def update(self, config: Config, ending: str = "succeeds") -> Ended:
        answer = self._ask(config, ending)
        return Ended(
            ok=answer["ok"],
            cut=answer["cut"],
            text=answer.get("error", ""),
            changes=tuple(answer.get("changes", ())),
        )

    def quiet(self, config: Config) -> str:
        done = self.update(config)
        return "\n".join([*done.changes, done.text]).strip()

    def owned(self) -> set[tuple[str, str, str]]:
        return {(each.kind, each.namespace, each.name) for each in applied(self.cluster)}

    def close(self) -> None:
        self._worker.communicate()

    def _ask(self, config: Config, ending: str) -> dict:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        print(
            json.dumps({"cluster": STACK, "config": config, "ending": ending}),
            file=self._worker.stdin,
            flush=True,
        )
        return json.loads(self._worker.stdout.readline())


@pytest.fixture(scope="module")
def engine(state_directory) -> Iterator[Rehearsal]:  # noqa: ARG001 - it must be set before a cluster starts
    rehearsal = Rehearsal(start(STACK))
    yield rehearsal
    rehearsal.close()
    delete(STACK)


@pytest.mark.parametrize("following", FOLLOWING)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("transition", TRANSITIONS, ids=[each.name for each in TRANSITIONS])
def test_a_change_of_mind_ends_converged_and_without_a_gap(
    engine, transition: Transition, ending: str, following: str
):
    play(engine, transition, ending, following)
