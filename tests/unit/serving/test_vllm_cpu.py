"""vLLM on nodes without accelerators: what its pods are told, and what cannot work there."""

from __future__ import annotations

import json

import pytest

from inferplan.components.nodes.pool import Pool
from inferplan.components.pools import ExistingPool
from inferplan.components.serving.demand import demand_of
from inferplan.components.serving.server_container import image_of
from inferplan.components.serving.vllm.service import _engine_environment
from inferplan.components.serving.vllm.spec import VllmSpec
from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.advice import advice
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.stackfile.test_checks import CONFIG

WEIGHTS = {"store": "disk", "path": "qwen", "revision": "1", "size": "2Gi"}


def pool(cpu: int, memory: str, **fields: object) -> Pool:
    shape = {"cpu": str(cpu), "memory": memory}
    return ExistingPool.model_validate(
        {"provider": "existing", "accelerator": "cpu", "nodes": 1, "instanceType": shape, **fields}
    )


def model(**fields: object) -> VllmSpec:
    return VllmSpec.model_validate({"engine": "vllm", "weights": WEIGHTS, "pool": "cpu", **fields})


def variables(spec: VllmSpec, node: Pool) -> dict[str, str]:
    names = ("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS")
    found = _engine_environment(spec, node.target("cpu"))
    return {name: found[name] for name in names if name in found}


def test_the_image_is_that_of_the_build_for_cpus():
    assert "/vllm-openai-cpu:" in image_of(model(), pool(8, "32Gi").target("cpu"))


@pytest.mark.parametrize(
    ("cpu", "memory", "requests", "expected"),
    [
        # One core is for the scheduler; 1 Gi of 6 Gi is left by 2.25 Gi of processes and the weights.
        (4, "10Gi", ("1", "6Gi"), ("1", "1")),
        (16, "64Gi", ("13", "57Gi"), ("52", "12")),
    ],
)
def test_threads_and_cache_follow_the_requests_which_leave_room_for_other_pods(
    cpu, memory, requests, expected
):
    node = pool(cpu, memory)
    wanted = demand_of(model(), 1, node.target("cpu"))
    assert (wanted["cpu"], wanted["memory"]) == requests
    assert variables(model(), node) == {
        "VLLM_CPU_KVCACHE_SPACE": expected[0],
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": expected[1],
    }


def test_ranks_are_bound_to_numa_nodes():
    found = variables(model(tensorParallelSize=2), pool(64, "256Gi"))
    assert found["VLLM_CPU_OMP_THREADS_BIND"] == "auto"
    assert "OMP_NUM_THREADS" not in found


@pytest.fixture
def problems(tmp_path):
    """The errors and warnings of a stack of one node of a cluster that exists, such as kind's."""

    def of(fields: dict[str, object], **shape: object) -> list[str]:
        node = {"cpu": "4", "memory": "16Gi", **shape}
        config = {
            **CONFIG,
            "cluster": {"provider": "existing", "context": "kind-kind"},
            "nodePools": {
                "cpu": {
                    "provider": "existing",
                    "accelerator": "cpu",
                    "nodes": 1,
                    "instanceType": node,
                }
            },
            "storage": {
                "disk": {"kind": "pvc", "claimName": "models"},
                "bucket": {"kind": "s3", "bucket": "acme-weights"},
            },
            "models": {
                "qwen": {
                    "engine": "vllm",
                    "weights": WEIGHTS,
                    "pool": "cpu",
                    "consumers": ["chat"],
                    **fields,
                }
            },
        }
        path = tmp_path / "Pulumi.kind.yaml"
        path.write_text(
            json.dumps({"config": {f"inferplan:{key}": each for key, each in config.items()}})
        )
        try:
            return [
                each.message for each in advice(validate(read_stack(path, shown_path="s.yaml")))
            ]
        except InvalidStack as error:
            return list(error.lines)

    return of


def test_the_defaults_fit_one_small_node_with_gateway_surge_pod_preheat_and_dns(problems):
    assert problems({}) == []
    into = {"weights": {**WEIGHTS, "store": "bucket"}, "preheat": {"into": "disk"}}
    assert problems(into) == []
    # Two CPUs hold the model and the gateway, and nothing more.
    [text] = problems(into, cpu="2")
    assert "2 cpu to every pod, and pods request" in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gpuMemoryUtilization": 0.8}, ".gpuMemoryUtilization: On CPUs the KV cache has the size"),
        (
            {"nnodes": 2, "tensorParallelSize": 2},
            ".nnodes: vLLM runs one replica on the CPUs of one",
        ),
        ({"gaudi": {"skipWarmup": True}}, "Pool 'cpu' has no accelerator. Remove gaudi."),
        ({"resources": {"memory": "4Gi"}}, "Write resources: {memory: 6Gi}, or more."),
        ({"resources": {"cpu": "6"}}, "a node of pool 'cpu' has 4000m. Lower the request."),
        ({"image": "vault.habana.ai/gaudi-docker/x/vllm-1:latest"}, "accelerators of habana"),
        ({"weights": {**WEIGHTS, "store": "bucket"}}, "images for CPUs have no streaming loader"),
        ({"replicas": 5}, "Write nodes: 5, or lower replicas."),
    ],
)
def test_what_cannot_work_on_cpus_is_an_error_that_says_what_to_write(problems, fields, words):
    text = "\n".join(problems(fields))
    assert words in text, text


def test_a_users_own_size_of_the_cache_is_kept(problems):
    assert problems({"resources": {"memory": "4Gi"}, "env": {"VLLM_CPU_KVCACHE_SPACE": "1"}}) == []
