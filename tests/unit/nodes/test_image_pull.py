"""What pulls images onto nodes beforehand: where it runs, what it may do, and who waits for it."""

from __future__ import annotations

import json

import pytest

from inferplan.components.handles import NodeTarget
from inferplan.components.nodes.image_pull import PAUSE_IMAGE, ImagePull
from inferplan.hardware.accelerators import Taint
from inferplan.hardware.machines import Capacity
from tests.recorder import declare

SET = "kubernetes:apps/v1:DaemonSet"
L40S = NodeTarget(
    pool="l40s",
    accelerator=None,
    node_selector={"inferplan.dev/pool": "l40s"},
    taints=(Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
    capacity=Capacity(cpu_millicores=48_000, memory_bytes=2**38),
    nodes=3,
)


@pytest.fixture
def made():
    images = ["docker.io/vllm/vllm-openai:v0.33.0", "nvcr.io/nvidia/tritonserver:26.07-py3"]
    return declare(
        lambda: ImagePull("l40s-images", images, target=L40S, namespace="inference")
    ).one(SET)


def test_every_image_is_started_once_on_every_node_and_ends_at_once(made):
    spec = made.inputs["spec"]["template"]["spec"]
    assert [each["image"] for each in spec["initContainers"]] == [
        "docker.io/vllm/vllm-openai:v0.33.0",
        "nvcr.io/nvidia/tritonserver:26.07-py3",
    ]
    assert all(each["command"] == ["sh", "-c", ":"] for each in spec["initContainers"])
    assert [each["image"] for each in spec["containers"]] == [PAUSE_IMAGE]
    assert spec["nodeSelector"] == {"inferplan.dev/pool": "l40s"}
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]


def test_it_asks_for_no_card_sees_none_and_fits_the_restricted_profile(made):
    spec = made.inputs["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for container in [*spec["containers"], *spec["initContainers"]]:
        assert "gpu" not in json.dumps(container["resources"])
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_all_nodes_pull_at_once_and_are_waited_for_as_long_as_images_take(made):
    assert made.inputs["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "100%"}
    assert made.options.custom_timeouts.create == "3600s"
