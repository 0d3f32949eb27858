"""Replicas whose pods an operator makes are counted from the pods."""

from __future__ import annotations

from inferplan.status.models import ready_replicas
from tests.unit.serving.models import vllm

WIDE = vllm(tensorParallelSize=8, pipelineParallelSize=2, nnodes=2)


def pod(name, labels, *, ready=True):
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}}


def group(number, *, worker_ready=True):
    prefix = "leaderworkerset.sigs.k8s.io/"
    leader = pod(f"m-group-{number}", {f"{prefix}worker-index": "0"})
    return [
        leader,
        pod(f"m-group-{number}-1", {f"{prefix}group-index": str(number)}, ready=worker_ready),
    ]


def test_a_group_counts_only_when_each_of_its_pods_is_ready():
    assert ready_replicas(WIDE, [*group(0), *group(1), *group(10)]) == 3
    assert ready_replicas(WIDE, [*group(0), *group(1, worker_ready=False)]) == 1
    assert ready_replicas(WIDE, []) == 0


def test_the_workers_of_a_ray_cluster_count_once_its_head_is_ready():
    workers = [pod(f"w{number}", {"ray.io/node-type": "worker"}) for number in range(2)]
    assert ready_replicas(vllm(), [pod("head", {"ray.io/node-type": "head"}), *workers]) == 2
    assert (
        ready_replicas(vllm(), [pod("head", {"ray.io/node-type": "head"}, ready=False), *workers])
        == 0
    )
