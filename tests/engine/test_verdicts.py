"""The report on one-line changes, from the CLI's preview of the deployed stack: the same steps,
verdict and risks as from `inferplan plan --against`.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from inferplan.progress import silent
from inferplan.pulumi_engine.secrets import unlock
from inferplan.rehearsal.cluster import Cluster, delete, start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.review.reading.preview import Preview
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from inferplan.review.verdict import RISKY
from inferplan.stackfile.reader import read_stack
from tests.engine.own_project import own_project
from tests.engine.requirement import needs_pulumi
from tests.review.verdicts.change import (
    OTHER_SEED,
    ROOT,
    Change,
    changes_in,
    edited,
    preview_of,
    text_of,
)

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]

PASSPHRASE = "inferplan-example"  # noqa: S105 - public, in the README
# A stack that is deployed, and the example whose text and changes it has: of so many of those one
# is tried by default (0 for none), and of so many `make test-full` tries one.
STACKS = {
    "local": ("local", 20, 1),
    "rack-2-b3": ("onprem", 5, 1),
    "onprem": ("onprem", 0, 4),
    "local-4-u2": ("local", 0, 8),
}


class Deployed:
    """A stack on a simulated cluster under the CLI, at the text that a change starts from."""

    def __init__(self, stack: str, directory: Path, cluster: Cluster) -> None:
        (directory / "backend").mkdir()
        self.stack, self._cluster = stack, cluster
        # A project of its own: `pulumi stack init` writes a file for a stack that has none.
        self._project = own_project(directory)
        self._file = self._project / "stacks" / f"Pulumi.{stack}.yaml"
        self._file.write_text("config: {}\n")
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
        self._run("stack", "init", stack)

    def preview_of(self, change: Change) -> Preview:
        """The CLI's preview of `change`, after an update to the text before it."""
        text = simulated_text(change.stack)
        before = edited(text, *change.given) if change.given else text
        if before != self._text:
            self._file.write_text(before)
            with self._ingress_controller():
                self._run("up", *self._options, "--yes", "--skip-preview")
            self._text = before
        self._file.write_text(self._after(before, change))
        return read_bytes(
            self._run(
                "preview",
                *self._options,
                "--json",
                "--policy-pack",
                str(ROOT / "inferplan" / "policies"),
                check=False,
            )
        )

    @contextmanager
    def _ingress_controller(self) -> Iterator[None]:
        """Give each Ingress an address until the block ends, which the provider waits for."""
        done, path = threading.Event(), "/apis/networking.k8s.io/v1/ingresses"

        def admit() -> None:
            with closing(self._cluster.api()) as api:
                while not done.wait(0.5):
                    for each in api.request("GET", path)["items"]:
                        name = (
                            f"{each['metadata']['namespace']}/ingresses/{each['metadata']['name']}"
                        )
                        api.request(
                            "PATCH",
                            f"/apis/networking.k8s.io/v1/namespaces/{name}/status",
                            {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}},
                            media="application/merge-patch+json",
                        )

        controller = threading.Thread(target=admit)
        controller.start()
        try:
            yield
        finally:
            done.set()
            controller.join()

    @property
    def _options(self) -> tuple[str, ...]:
        return ("--stack", self.stack, "--non-interactive")

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
        done = subprocess.run(
            command,
            cwd=self._project,
            env=self._environment,
            capture_output=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0 or (done.stdout and not check), (
            done.stdout + done.stderr
        ).decode()[-3000:]
        return done.stdout


def simulated_text(example: str) -> str:
    """The text of an example whose cluster and pools are simulated, so that its keys may be public."""
    text = text_of(example)
    for existing in ("provider: existing, context: onprem", "provider: existing"):
        text = text.replace(existing, "provider: simulated")
    # The existing cluster has nodes besides its accelerators.
    system = "    system: {provider: simulated, nodes: 2}\n"
    return text if system[:11] in text else text.replace("nodePools:\n", f"nodePools:\n{system}")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory) -> Iterator[Callable[[str], Deployed]]:
    """Deploys a stack unless it is the last that was deployed; only that one has a cluster."""
    current: list[Deployed] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)

        def deploy(stack: str) -> Deployed:
            if [each.stack for each in current] != [stack]:
                clear()
                directory = tmp_path_factory.mktemp("verdicts")
                patch.setenv("INFERPLAN_STATE_DIR", str(directory / "state"))
                current.append(Deployed(stack, directory, start(stack)))
            return current[0]

        def clear() -> None:
            while current:
                delete(current.pop().stack)

        yield deploy
        clear()


def cases() -> Iterator[object]:
    """The changes of each stack in the order of their base, so that few updates are needed."""
    for stack, (example, sampled, in_full) in STACKS.items():
        chosen = sorted(
            (
                each
                for name in ("risky", "harmless")
                for each in changes_in(name)
                # A simulated cluster has no context that could change.
                if each.stack == example and "context: onprem" not in each.old
            ),
            key=lambda each: each.given or (),
        )
        for index, each in enumerate(chosen):
            always = bool(sampled and index % sampled == 0) or os.environ.get(
                "INFERPLAN_ALL_VERDICTS"
            )
            marks = () if always else (pytest.mark.full,)
            if always or index % in_full == 0:
                yield pytest.param(stack, each, id=f"{stack}: {each}", marks=marks)


@pytest.mark.parametrize(("stack", "change"), list(cases()))
def test_the_report_on_a_preview_of_the_cli_agrees_with_that_on_a_plan(deployed, stack, change):
    preview = deployed(stack).preview_of(change)
    offline = preview_of(change, stack=stack, read=simulated_text)
    assert _steps(preview) == _steps(offline)
    live, plan = make_report([preview]).stacks[0], make_report([offline]).stacks[0]
    assert _serious(live) == _serious(plan), json.dumps([_said(live), _said(plan)], indent=1)
    assert (live.rank <= RISKY) is (plan.rank <= RISKY)


def _steps(preview: Preview) -> set[tuple[str, str]]:
    """What changes, by URN; the provider is the engine's own concern."""
    return {
        (each.op, each.urn)
        for each in preview.steps
        if each.op != "same" and not each.type.startswith("pulumi:")
    }


def _serious(report) -> set[tuple[int, str, str]]:
    """Without names: of objects with the same risk the report names the first, and the CLI's events
    have no fixed order.
    """
    return {(each.weight, each.what, each.kind) for each in report.serious}


def _said(report) -> list[str]:
    return [
        report.verdict,
        *(
            f"{each.weight} {each.what} {each.kind} {each.name}: {each.cause}"
            for each in report.serious
        ),
    ]
