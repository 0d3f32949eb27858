"""The report on one-line changes, from the CLI's preview of the deployed stack: as severe as the report on `inferplan plan --against`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplan.rehearsal.cluster import Cluster, delete, start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.rehearsal.progress import silent
from inferplan.rehearsal.secrets import unlock
from inferplan.review.reading.preview import Preview
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from inferplan.review.verdict import RISKY
from inferplan.stackfile.reader import read_stack
from tests.engine.requirement import needs_pulumi
from tests.review.verdicts.change import OTHER_SEED, ROOT, Change, changes_in, edited, preview_of, text_of

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]

STACK = "local"
PASSPHRASE = "inferplan-example"  # noqa: S105 - public, in the README
_EVERY = 12
"""Of so many changes, one is tried by default; `make test-full` tries all."""


class Deployed:
    """The stack `local` on a simulated cluster under the CLI, at the text that a change starts from."""

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        (directory / "backend").mkdir()
        self._file = directory / f"Pulumi.{STACK}.yaml"
        self._text = ""
        self._environment = {
            **os.environ,
            "PULUMI_BACKEND_URL": (directory / "backend").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
            "INFERPLAN_KUBECONFIG": str(cluster.kubeconfig),
        }
        # What the bases of changes declare besides Kubernetes' own kinds.
        assert installer(cluster, silent)("monitoring.coreos.com")
        self._run("stack", "init", STACK)

    def preview_of(self, change: Change) -> Preview:
        """The CLI's preview of `change`, after an update to the text before it."""
        before = edited(text_of(STACK), *change.given) if change.given else text_of(STACK)
        if before != self._text:
            self._file.write_text(before)
            self._run("up", *self._options, "--yes", "--skip-preview")
            self._text = before
        self._file.write_text(self._after(before, change))
        return read_bytes(self._run("preview", *self._options, "--json", "--policy-pack", "inferplan/policies", check=False))

    @property
    def _options(self) -> tuple[str, ...]:
        return ("--stack", STACK, "--config-file", str(self._file), "--non-interactive")

    def _after(self, before: str, change: Change) -> str:
        if change.new != "@other-seed":
            after = edited(before, change.old, change.new)
            return edited(after, *change.also) if change.also else after
        file = read_stack(self._file)
        secret = unlock(PASSPHRASE, str(file.encryption_salt)).encrypt(OTHER_SEED)
        (old,) = [line for line in before.splitlines() if change.old in line]
        return before.replace(old, f"    secure: {secret}")

    def _run(self, *arguments: str, check: bool = True) -> bytes:
        command = ["pulumi", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, timeout=500, check=False)
        assert done.returncode == 0 or (done.stdout and not check), (done.stdout + done.stderr).decode()[-3000:]
        return done.stdout


@pytest.fixture(scope="module")
def deployed(tmp_path_factory) -> Iterator[Deployed]:
    directory = tmp_path_factory.mktemp("verdicts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(directory / "state"))
        patch.chdir(ROOT)
        yield Deployed(directory, start(STACK))
        delete(STACK)


def _local(name: str) -> Iterator[object]:
    """The changes of the stack in the order of their base, so that few updates are needed."""
    chosen = sorted((each for each in changes_in(name) if each.stack == STACK), key=lambda each: each.given or ())
    for index, each in enumerate(chosen):
        sampled = index % _EVERY == 0 or os.environ.get("INFERPLAN_ALL_VERDICTS")
        yield pytest.param(each, id=str(each), marks=() if sampled else (pytest.mark.full,))


@pytest.mark.parametrize("change", [*_local("risky"), *_local("harmless")])
def test_the_report_on_a_preview_of_the_cli_agrees_with_that_on_a_plan(deployed, change):
    under_the_cli, planned = make_report([deployed.preview_of(change)]), make_report([preview_of(change)])
    live, plan = under_the_cli.stacks[0], planned.stacks[0]
    assert _serious(live) == _serious(plan), json.dumps([_said(live), _said(plan)], indent=1)
    assert (live.rank <= RISKY) is (plan.rank <= RISKY)


def _serious(report) -> set[tuple[int, str, str]]:
    """Without names: of objects with the same risk the report names the first, and the CLI's events have no fixed order."""
    return {(each.weight, each.what, each.kind) for each in report.serious}


def _said(report) -> list[str]:
    return [report.verdict, *(f"{each.weight} {each.what} {each.kind} {each.name}: {each.cause}" for each in report.serious)]
