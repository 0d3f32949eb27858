"""Which field of a pod keeps it from a node, by the rules of Kubernetes' scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from inferplan.audit.nearest import obstacle

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
EXISTS: dict[str, Any] = {"key": "", "operator": "Exists", "effect": ""}


def node(*taints: Any, name: str = "a", **labels: str) -> Any:
    metadata = {"name": name, "labels": {"zone": "z", **labels}}
    return {"kind": "Node", "metadata": metadata, "spec": {"taints": list(taints)}}


@pytest.mark.parametrize(
    ("toleration", "taint", "unmet"),
    [
        (EXISTS, GPU, ""),
        ({"operator": "Exists"}, GPU, ""),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": ""}, GPU, ""),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": None}, GPU, ""),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "absent"}, GPU, "tolerations"),
        ({"key": "amd.com/gpu", "operator": "Exists"}, GPU, "tolerations"),
        ({**EXISTS, "effect": "NoExecute"}, GPU, "tolerations"),
        ({"value": "present"}, GPU, "tolerations"),
        ({"key": "x"}, {"key": "x", "value": "", "effect": "NoExecute"}, ""),
        # The scheduler looks at taints of NoSchedule and NoExecute.
        ({"key": "x"}, {**GPU, "effect": "PreferNoSchedule"}, ""),
        ({"key": "x"}, {"key": "nvidia.com/gpu"}, ""),
        ({"key": "x"}, "nvidia.com/gpu", ""),
    ],
)
def test_a_taint_excludes_pods_without_its_toleration(toleration, taint, unmet):
    assert obstacle({"tolerations": [toleration]}, [node(taint)]) == unmet


@pytest.mark.parametrize(
    ("term", "unmet"),
    [
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}, ""),
        (
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
            "affinity",
        ),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}, ""),
        (
            {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}],
            },
            "affinity",
        ),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, ""),
        ({}, "affinity"),
    ],
)
def test_a_term_of_the_affinity_has_expressions_for_labels_and_for_the_name(term, unmet):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert obstacle({"affinity": {"nodeAffinity": required}}, [node()]) == unmet
