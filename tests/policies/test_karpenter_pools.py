"""Pools of Karpenter and EKS Auto Mode are nodes to the policy pack: a NodePool does not switch the
rules on capacity off.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from tests.lanes import in_full
from tests.policies.recorded import recorded, settings_of

CAPACITY = {"stack-require-pool-capacity", "stack-require-matching-pool"}


def violated(change, *more: dict[str, Any]) -> set[str]:
    """The rules on capacity that prod violates after `change` of its Deployment qwen-3-14b, with
    the NodePools `more` besides its own.
    """
    recording = recorded("prod")
    registrations = []
    own = recording.of_type("kubernetes:karpenter.sh/v1:NodePool")[0]
    for each in recording:
        if each.type == "kubernetes:apps/v1:Deployment" and each.name == "qwen-3-14b":
            each = dataclasses.replace(each, inputs=copy.deepcopy(dict(each.inputs)))  # noqa: PLW2901 - the recording is shared
            change(each.inputs["spec"])
        registrations.append(each)
    for index, inputs in enumerate(more):
        extra = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": f"extra-{index}"},
            **inputs,
        }
        registrations.append(
            dataclasses.replace(
                own, urn=f"{own.urn}-extra-{index}", name=f"extra-{index}", inputs=extra
            )
        )
    changed = dataclasses.replace(recording, registrations=tuple(registrations))
    return {
        each.rule.id for each in check_stack(stack_of(changed), settings_of("prod")).violations
    } & CAPACITY


def many(spec: dict[str, Any]) -> None:
    spec["replicas"] = 999


def misspelt(spec: dict[str, Any]) -> None:
    spec["template"]["spec"]["nodeSelector"] = {"inferplan.dev/pool": "l40"}


def pool(labels: dict[str, str], *types: str, **size: Any) -> dict[str, Any]:
    requirements = (
        [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}]
        if types
        else []
    )
    return {
        "spec": {
            **size,
            "template": {"metadata": {"labels": labels}, "spec": {"requirements": requirements}},
        }
    }


OTHER = {"inferplan.dev/pool": "others"}
SAME = {"inferplan.dev/pool": "l40s"}


@pytest.mark.parametrize(
    ("change", "pools", "rules"),
    [
        (lambda _: None, [], set()),
        (many, [], {"stack-require-pool-capacity"}),
        (many, [pool(SAME, "g6e.xlarge", limits={"nodes": "10"})], {"stack-require-pool-capacity"}),
        (misspelt, [pool(OTHER, "g6e.xlarge")], {"stack-require-matching-pool"}),
        # Without a limit the pool may really grow to that size, and without instance types it may
        # have any accelerator.
        (many, [pool(SAME, "g6e.xlarge")], set()),
        (many, [pool(SAME)], set()),
        *in_full(
            (misspelt, [], {"stack-require-matching-pool"}),
            (many, [pool(OTHER, "g6e.xlarge")], {"stack-require-pool-capacity"}),
            (many, [pool(SAME, "m7i.large")], {"stack-require-pool-capacity"}),
        ),
    ],
)
def test_a_node_pool_counts_as_the_nodes_that_it_may_start(change, pools, rules):
    assert violated(change, *pools) == rules
