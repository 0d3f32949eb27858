"""What a pod may fill of its node's disk, and what its processes may buffer of its memory."""

from __future__ import annotations

import pytest

from inferplan.components.pools import ExistingPool
from inferplan.kube.quantity import bytes_of
from tests.unit.serving.models import BUCKET, container_of, pool, vllm


def test_a_replica_requests_the_disk_that_its_volumes_may_fill_and_never_more_than_its_share_of_the_node():
    def requested(**shape):
        resources = container_of(vllm(), target=pool("nvidia-l40s", **shape))["resources"]
        assert "ephemeral-storage" not in resources["limits"]
        return bytes_of(resources["requests"]["ephemeral-storage"])

    # /tmp of 4Gi and a cache of 20Gi on NVMe, and 8 replicas beside each other on a node whose disk
    # is 89Gi.
    assert requested(machine="g6e.12xlarge") == 24 * 2**30
    small = ExistingPool.model_validate({
        "provider": "existing", "accelerator": "nvidia-l40s", "nodes": 1,
        "instanceType": {"cpu": "64", "memory": "512Gi", "accelerators": 8, "ephemeralStorage": "89Gi"},
    })  # fmt: skip
    share = container_of(vllm(), target=small.target("p"))["resources"]["requests"][
        "ephemeral-storage"
    ]
    assert 8 * 2**30 < bytes_of(share) <= 89 * 2**30 // 8


@pytest.mark.parametrize(
    ("fields", "most_gib"),
    [
        ({"resources": {"memory": "64Gi"}}, 62),
        ({"resources": {"memory": "64Gi"}, "tensorParallelSize": 4}, 62),
        ({"resources": {"memory": "16Gi"}, "sharedMemory": "8Gi"}, 8),
        ({}, None),
    ],
)
def test_the_buffers_of_all_processes_that_stream_fit_the_pod_beside_its_shared_memory(
    fields, most_gib
):
    container = container_of(vllm(**fields), weights=BUCKET)
    limit = int(
        next(
            each["value"]
            for each in container["env"]
            if each["name"] == "RUNAI_STREAMER_MEMORY_LIMIT"
        )
    )
    # One process for each accelerator buffers as much; 0 and -1 mean something else to the
    # streamer.
    most = (
        bytes_of(container["resources"]["limits"]["memory"])
        if most_gib is None
        else most_gib * 2**30
    )
    assert 2**30 < limit * int(container["resources"]["limits"]["nvidia.com/gpu"]) <= most / 2
    assert limit <= 40 * 10**9


def test_files_on_a_share_are_not_streamed_and_a_limit_of_the_user_s_own_wins():
    assert "RUNAI_STREAMER_MEMORY_LIMIT" not in {
        each["name"] for each in container_of(vllm())["env"]
    }
    own = container_of(vllm(env={"RUNAI_STREAMER_MEMORY_LIMIT": "7"}), weights=BUCKET)["env"]
    assert [each["value"] for each in own if each["name"] == "RUNAI_STREAMER_MEMORY_LIMIT"] == ["7"]
