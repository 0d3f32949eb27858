"""Each example of docs/engines on one control plane: accepted, on the right pool, ready, and
deleted before the next one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inferplan.progress import silent
from inferplan.rehearsal.apply.run import Outcome, apply
from inferplan.rehearsal.cluster import Cluster, delete
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.status.status import StackState, read_state
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import Workspace, open_workspace
from tests.lanes import in_full
from tests.rehearsal.reviewed import REVIEWED
from tests.rehearsal.traces import LWS, RAY, differences, kept, traces

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "docs" / "engines").glob("Pulumi.*.yaml"))
STORIES = sorted((ROOT / "docs" / "stories").glob("Pulumi.*.yaml"))
SAMPLE = [ROOT / "docs" / "engines" / f"Pulumi.{name}.yaml" for name in ("ray-serve", "vllm")]
SAMPLE.append(ROOT / "docs" / "stories" / "Pulumi.speech.yaml")
VLLM = ROOT / "docs" / "engines" / "Pulumi.vllm.yaml"
OPERATED = {  # by stack, the objects that an operator was seen to act on
    "ray-serve": {RAY: "/apis/ray.io/v1/namespaces/inference/rayservices/assistant"},
    "vllm": {
        LWS: (
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/inference/leaderworkersets/llama-3-405b-group"
        )
    },
}
ACCELERATORS = ("nvidia.com/gpu", "habana.ai/gaudi")


@dataclass(frozen=True)
class Example:
    """An example that is up: what it asks for, what was done for it, and the pods that came of it."""

    workspace: Workspace
    outcome: Outcome
    state: StackState
    pods: list[dict[str, Any]]

    def pods_of(self, model: str) -> list[dict[str, Any]]:
        chosen = {
            "app.kubernetes.io/component": "model",
            "app.kubernetes.io/instance": model,
        }.items()
        return [pod for pod in self.pods if chosen <= pod["metadata"]["labels"].items()]


class Stage:
    """A cluster that shows one example at a time, all as one stack, so that each takes the place of
    the one before.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.shown = ("", Outcome())

    def show(self, path: Path, *, again: bool = False) -> Example:
        """The example at `path`, brought up unless it is what is shown already; `again` brings it
        up once more.
        """
        workspace = open_workspace(str(path))
        name, outcome = self.shown
        if again or workspace.stack != name:
            given = workspace.engine_input()
            if name and workspace.stack != name:
                # What is no longer declared goes last, and its cards are wanted now: the models of
                # before make room first.
                self._apply(
                    workspace, {**given, "config": {**given["config"], "inferplan:models": "{}"}}
                )
            outcome = self._apply(workspace, given)
            self.shown = (workspace.stack, outcome)
        pods = self.cluster.get("/api/v1/namespaces/inference/pods")["items"]
        return Example(
            workspace,
            outcome,
            read_state(workspace.settings, contract_of(workspace.settings), self.cluster.get),
            pods,
        )

    def _apply(self, workspace: Workspace, given: dict[str, Any]) -> Outcome:
        options: Any = {
            **given,
            "stack": "examples",
            "ensure_crds": installer(self.cluster, silent),
        }
        return apply(workspace.rehearsed, self.cluster, **options)


@pytest.fixture(scope="module")
def stage(examples_cluster):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        patch.chdir(ROOT)
        yield Stage(examples_cluster)
        delete("examples")


@pytest.fixture(
    scope="module",
    params=[*SAMPLE, *in_full(*(path for path in [*EXAMPLES, *STORIES] if path not in SAMPLE))],
    ids=lambda path: path.name,
)
def example(stage, request):
    return stage.show(request.param)


def cards_of(pod: dict[str, Any]) -> int:
    requests = [each["resources"].get("requests", {}) for each in pod["spec"]["containers"]]
    return sum(int(each.get(resource, 0)) for each in requests for resource in ACCELERATORS)


def test_every_model_is_accepted_and_each_of_its_replicas_is_ready(example):
    assert example.state.settled
    wanted = {
        name: (model.replicas, model.replicas)
        for name, model in example.workspace.settings.models.items()
    }
    assert {row.name: (row.ready, row.wanted) for row in example.state.models} == wanted
    assert all(wanted.values())


def test_pods_of_a_model_run_on_its_pool_with_requested_accelerators(example):
    for name, model in example.workspace.settings.models.items():
        pods = example.pods_of(name)
        assert pods, name
        assert {pod["spec"]["nodeName"].rpartition("-")[0] for pod in pods} == {model.pool}
        held = [cards_of(pod) for pod in pods if cards_of(pod)]
        assert held == [model.accelerators_per_pod] * (model.replicas * model.pods), name


def test_stub_of_an_operator_creates_its_objects_except_reviewed_differences(stage, example):
    for kind, path in OPERATED.get(example.workspace.stack, {}).items():
        live = stage.cluster.get(path)
        found = differences(
            traces(stage.cluster.get, kind, live), kept(kind)[live["metadata"]["name"]]
        )
        reasons = {
            each: [shape for shape in REVIEWED[kind] if re.search(shape, each)] for each in found
        }
        assert {each: found[each] for each, shapes in reasons.items() if not shapes} == {}
        assert {shape for shapes in reasons.values() for shape in shapes} == set(REVIEWED[kind])


def test_pods_without_accelerators_avoid_accelerator_nodes(example):
    others = [
        pod
        for pod in example.pods
        if pod["metadata"]["labels"].get("app.kubernetes.io/component") != "model"
    ]
    strays = [pod for pod in others if not cards_of(pod)]
    assert strays
    plain = {
        name
        for name, pool in example.workspace.settings.node_pools.items()
        if pool.accelerator is None
    }
    assert {pod["spec"]["nodeName"].rpartition("-")[0] for pod in strays} == plain
    assert len(plain) == 1


def test_replica_of_two_pods_has_two_nodes_of_eight_accelerators(stage):
    example = stage.show(VLLM)
    pods = example.pods_of("llama-3-405b")
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["h100-0", "h100-1"]
    assert [cards_of(pod) for pod in pods] == [8, 8]
    assert {pod["metadata"]["labels"]["inferplan.dev/role"] for pod in pods} == {"leader", "worker"}
    assert next(row for row in example.state.pools if row.name == "h100").accelerators_used == 16


@pytest.mark.full
def test_second_up_of_an_example_changes_nothing(stage):
    stage.show(VLLM)
    assert stage.show(VLLM, again=True).outcome.total_changes == 0
