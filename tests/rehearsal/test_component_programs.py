"""Programs that declare our components themselves, on one control plane: every object is accepted
and ready, and a second run changes nothing.
"""

from __future__ import annotations

import contextlib
import runpy
from typing import Any

import pulumi
import pytest

from inferplan.components.nodes.fake_nodes import cpu_nodes, fake_nodes
from inferplan.components.public.handles import PoolHandle
from inferplan.rehearsal.apply.applier import Applier
from inferplan.rehearsal.apply.run import Outcome, apply, down
from inferplan.rehearsal.cluster import Cluster
from tests.lanes import in_full
from tests.unit.components import yaml_program
from tests.unit.components.programs import EXAMPLES, answer_stack_references, config, planned

pytestmark = pytest.mark.cluster


def rehearsed(example: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    answer_stack_references(monkeypatch, Applier)
    pools = [each for each in planned(example) if each.type == "inferplan:index:NodePool"]
    folder = EXAMPLES / example

    def program() -> Any:
        """The example, and the nodes that its cluster has."""
        for pool in pools:
            for node in (
                *fake_nodes(pool.name, PoolHandle.model_validate(pool.inputs)),
                *cpu_nodes(3),
            ):
                pulumi.CustomResource(
                    "kubernetes:core/v1:Node", f"node-{node['metadata']['name']}", node
                )
        if example == "yaml":
            return yaml_program.run(yaml_program.read(folder / "Pulumi.yaml"))
        return runpy.run_path(str(folder), run_name="__main__") and None

    return apply(program, cluster, **config("search" if example == "platform" else "one-model"))


# tests/unit/components compares what `python` and `yaml` declare: it is the same.
@pytest.mark.parametrize("example", ["platform", *in_full("python", "yaml")])
def test_the_example_becomes_ready_and_stays_as_it_is(example, examples_cluster, monkeypatch):
    first = rehearsed(example, examples_cluster, monkeypatch)
    model = "bge-m3" if example == "platform" else "qwen"
    assert ("Deployment", model) in {(each.kind, each.name) for each in first.created}
    assert rehearsed(example, examples_cluster, monkeypatch).total_changes == 0
    with contextlib.closing(examples_cluster.api()) as api:
        namespace = "search" if example == "platform" else "inference"
        status = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{model}")["status"]
    assert status["readyReplicas"] == status["replicas"] == (1 if example == "platform" else 2)
    assert down(examples_cluster).left == ()
