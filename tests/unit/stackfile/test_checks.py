from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

WEIGHTS = {"store": "weights", "path": "llama", "revision": "v1", "size": "16Gi"}
MODEL: dict[str, Any] = {
    "engine": "vllm",
    "weights": WEIGHTS,
    "preheat": {"into": "shared"},
    "pool": "l40s",
    "consumers": ["chat"],
}
CONFIG: dict[str, Any] = {
    "cluster": {"provider": "simulated"},
    "nodePools": {
        "l40s": {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 2,
        },
        "gaudi1": {"provider": "simulated", "accelerator": "gaudi-1", "nodes": 1},
        "gaudi2": {"provider": "simulated", "accelerator": "gaudi-2", "nodes": 1},
        "system": {"provider": "simulated", "nodes": 1},
    },
    "storage": {
        "weights": {"kind": "s3", "bucket": "acme-weights"},
        "shared": {"kind": "nfs", "server": "nfs.internal", "path": "/models", "capacity": "100Gi"},
    },
    "gateway": {"host": "llm.acme.example", "tls": {"secretName": "tls"}},
    "consumers": {"chat": {"keys": [1]}},
    "apiKeySeed": {"secure": "v1:bm9uY2U=:Y2lwaGVy"},
}


@pytest.fixture
def lines(tmp_path: Path):
    """The error lines of a stack with one model whose fields, or whose stack's sections, differ
    from sound ones.
    """

    def judge(
        model: dict[str, Any] | None = None,
        *,
        models: dict[str, Any] | None = None,
        **sections: Any,
    ) -> tuple[str, ...]:
        config = {
            **CONFIG,
            "models": models or {"chat-model": {**MODEL, **(model or {})}},
            **sections,
        }
        path = tmp_path / "Pulumi.test.yaml"
        path.write_text(
            json.dumps({"config": {f"inferplan:{key}": value for key, value in config.items()}})
        )
        try:
            validate(read_stack(path, shown_path="s.yaml"))
        except InvalidStack as error:
            return error.lines
        return ()

    return judge


def only(found: tuple[str, ...]) -> str:
    assert len(found) == 1, found
    return found[0]


def test_the_stack_that_the_others_vary_is_sound(lines):
    assert lines() == ()


def test_an_unknown_pool_is_reported_with_the_closest_and_the_known_ones(lines):
    line = only(lines({"pool": "l40"}))
    assert (
        "models.chat-model.pool: Unknown pool 'l40'. Did you mean 'l40s'? Pools in this stack:"
        " gaudi1, gaudi2, l40s, system." in line
    )
    assert "gaudi1, gaudi2, l40s, system" in line


def test_a_pool_of_plain_cpu_nodes_serves_only_engines_with_a_build_for_cpus(lines):
    assert lines({"pool": "system"}) == ()
    pytriton = {
        **MODEL,
        "engine": "pytriton",
        "image": "docker.io/acme/pytriton:1",
        "pool": "system",
    }
    assert "has no accelerator" in only(lines(models={"chat-model": pytriton}))


def test_vllm_on_first_generation_gaudi_is_refused_and_says_why(lines):
    line = only(lines({"pool": "gaudi1"}))
    assert "models.chat-model.engine: Engine vllm does not run on gaudi-1" in line
    assert "1.21" in line


@pytest.mark.parametrize(
    ("cards", "words"),
    [(8, "a node of pool 'l40s' has 4"), (3, "leave 1 of the 4 of each node unused")],
)
def test_a_replicas_cards_fit_a_node_and_divide_it(lines, cards, words):
    assert words in only(lines({"tensorParallelSize": cards}))


def test_weights_that_no_device_memory_holds_are_refused_and_the_next_size_passes(lines):
    assert "do not fit into 1 x 45Gi of nvidia-l40s" in only(
        lines({"weights": {**WEIGHTS, "size": "42Gi"}})
    )
    assert lines({"weights": {**WEIGHTS, "size": "40Gi"}}) == ()


def test_models_that_overfill_a_share_are_refused_where_it_overflows(lines):
    big = {**MODEL, "tensorParallelSize": 4, "weights": {**WEIGHTS, "size": "60Gi"}}
    line = only(
        lines(
            models={
                "first": big,
                "second": {**big, "weights": {**WEIGHTS, "size": "60Gi", "path": "other"}},
            }
        )
    )
    assert "models.second.weights.size" in line
    assert "need 120Gi, and its capacity is 100Gi" in line


def test_an_unknown_store_is_reported(lines):
    assert "Unknown store 'weihgts'. Did you mean 'weights'?" in only(
        lines({"weights": {**WEIGHTS, "store": "weihgts"}})
    )


def test_preheating_into_a_bucket_is_refused_with_the_shares_named(lines):
    assert "which pods cannot mount. Use one of shared." in only(
        lines({"preheat": {"into": "weights"}})
    )


def test_gaudi_cannot_stream_from_a_bucket(lines):
    model = {key: value for key, value in MODEL.items() if key != "preheat"} | {"pool": "gaudi2"}
    assert "have no streaming loader" in only(lines(models={"chat-model": model}))


def test_an_unknown_consumer_is_reported_at_its_index(lines):
    assert "models.chat-model.consumers[1]: Unknown consumer 'bot'." in only(
        lines({"consumers": ["chat", "bot"]})
    )


def test_consumers_without_a_gateway_are_refused(lines):
    assert "Missing gateway, which checks the keys of consumers" in only(lines(gateway={}))


def test_more_replicas_than_the_pool_holds_are_refused(lines):
    assert lines({"replicas": 8}) == ()
    assert (
        "9 x 1 = 9 accelerators do not fit pool 'l40s', which has 8. Lower replicas to at most 8"
        in only(lines({"replicas": 9}))
    )


def test_surging_on_a_full_pool_is_refused_since_it_would_wait_for_ever(lines):
    assert lines({"replicas": 7, "rollout": "surge"}) == ()
    assert "would wait indefinitely" in only(lines({"replicas": 8, "rollout": "surge"}))


def test_more_memory_than_a_node_has_is_refused(lines):
    assert "of memory, but a node of pool 'l40s' has" in only(
        lines({"resources": {"memory": "2Ti"}})
    )


def test_shared_memory_beyond_the_memory_is_refused(lines):
    assert "exceeds the memory of a replica" in only(
        lines({"sharedMemory": "20Gi", "resources": {"memory": "10Gi"}})
    )


def test_a_model_is_not_called_vllm_since_vllm_reads_the_variables_of_such_a_service(lines):
    assert "VLLM_PORT" in only(lines(models={"vllm": MODEL}))


@pytest.mark.parametrize("name", ["gateway", "default", "allow-dns"])
def test_a_model_cannot_take_the_name_of_something_else_in_the_namespace(lines, name):
    assert "is reserved for" in only(lines(models={name: MODEL}))


def test_a_model_whose_pods_names_would_be_cut_is_refused(lines):
    assert lines(models={"m" * 46: MODEL}) == ()
    assert "47 characters" in only(lines(models={"m" * 47: MODEL}))


RAY = {
    **MODEL,
    "engine": "ray-serve",
    "image": "docker.io/rayproject/ray-llm:2.56.0-py312-cu130",
    "rayVersion": "2.56.0",
    "applications": {"llm": {"kind": "llm"}},
}


def test_a_ray_service_whose_clusters_names_would_be_too_long_is_refused(lines):
    assert lines(models={"m" * 47: RAY}) == ()
    assert "48 characters, but KubeRay's names for its clusters allow 47" in only(
        lines(models={"m" * 48: RAY})
    )


def test_a_ray_service_needs_room_for_its_replacement_next_to_other_models(lines):
    ray = {**RAY, "replicas": 2, "upgradeStrategy": "NewCluster"}
    assert lines(models={"chat": ray, "other": {**MODEL, "replicas": 4}}) == ()
    assert "models.chat.upgradeStrategy" in only(
        lines(models={"chat": ray, "other": {**MODEL, "replicas": 5}})
    )


def test_two_secrets_of_one_name_are_refused(lines):
    found = lines(
        models={"consumer": {**MODEL, "consumers": ["server-key"]}},
        consumers={"server-key": {"keys": [1]}},
    )
    assert "The name 'consumer-server-key' of its Secret is already used by" in only(found)


@pytest.mark.parametrize("namespace", ["kube-system", "default"])
def test_kubernetes_own_namespaces_are_refused(lines, namespace):
    assert "belongs to Kubernetes" in only(lines(namespace=namespace))


def test_the_namespace_of_the_controllers_is_refused_on_eks_alone(lines):
    eks = {"provider": "eks", "name": "research", "region": "us-west-2"}
    message = "Namespace 'cluster-controllers' is reserved for the controllers of the cluster."
    assert any(message in line for line in lines(namespace="cluster-controllers", cluster=eks))
    assert not any(message in line for line in lines(cluster=eks))
    assert lines(namespace="cluster-controllers") == ()


def test_a_model_has_no_name_of_a_policy_of_metrics(lines):
    models, monitoring = {"gateway-metrics": MODEL}, {"prometheus": {"namespace": "monitoring"}}
    assert "'gateway-metrics' is reserved for the network policy of gateway's metrics" in only(
        lines(models=models, monitoring=monitoring)
    )
    assert lines(models=models) == ()


def test_all_errors_are_reported_at_once(lines):
    models = {
        f"model-{index}": {**MODEL, "pool": "nowhere", "consumers": ["nobody"]}
        for index in range(20)
    }
    found = lines(models=models)
    assert len(found) == 41
    assert sum("exceeds the free space of store" in line for line in found) == 1


H100 = {
    **CONFIG["nodePools"],
    "h100": {"provider": "simulated", "accelerator": "nvidia-h100", "nodes": 2},
}
WIDE = {"pool": "h100", "tensorParallelSize": 8, "pipelineParallelSize": 2, "nnodes": 2}


def test_a_replica_over_two_nodes_counts_all_of_its_cards_against_the_pool(lines):
    assert lines(WIDE, nodePools=H100) == ()
    found = only(lines({**WIDE, "replicas": 2}, nodePools=H100))
    assert "2 x 16 = 32 accelerators do not fit pool 'h100', which has 16" in found
    assert "surge starts a successor" in only(lines({**WIDE, "rollout": "surge"}, nodePools=H100))


def test_weights_may_fill_the_cards_of_every_node_of_a_replica(lines):
    large = {"store": "weights", "path": "llama", "revision": "v1", "size": "1000Gi"}
    room = {
        "shared": {"kind": "nfs", "server": "nfs.internal", "path": "/models", "capacity": "4Ti"},
        "weights": CONFIG["storage"]["weights"],
    }
    assert lines({**WIDE, "weights": large}, nodePools=H100, storage=room) == ()
    alone = {"pool": "h100", "tensorParallelSize": 8, "weights": large}
    assert "do not fit into 8 x 80Gi" in only(lines(alone, nodePools=H100, storage=room))


def test_the_error_of_a_replica_larger_than_a_node_says_how_to_span_several(lines):
    found = only(lines({"pool": "h100", "tensorParallelSize": 16}, nodePools=H100))
    assert "A replica requests 16 accelerators, but a node of pool 'h100' has 8" in found
    assert "raise nnodes" in found


def test_an_image_of_the_other_vendor_or_of_an_unlisted_pair_is_refused(lines):
    gaudi = "vault.habana.ai/gaudi-docker/{}/ubuntu24.04/habanalabs/vllm-0.26.0-ptupstream-2.11.0:latest"
    assert "is built for accelerators of habana" in only(lines({"image": gaudi.format("1.24.1")}))
    assert "is built for accelerators of nvidia" in only(
        lines({"pool": "gaudi2", "image": "docker.io/vllm/vllm-openai:v0.33.0"})
    )
    assert "pairs vllm 0.26.0 with Gaudi software 1.24.0" in only(
        lines({"pool": "gaudi2", "image": gaudi.format("1.24.0")})
    )
    assert lines({"pool": "gaudi2", "image": gaudi.format("1.24.1")}) == ()


def test_names_that_operators_derive_are_kept_free_and_short(lines):
    assert "is reserved for a Service that an operator creates for chat" in only(
        lines(models={"chat": RAY, "chat-serve-svc": MODEL})
    )
    wide = {**MODEL, **WIDE}
    assert "is reserved for a Service that an operator creates for chat" in only(
        lines(models={"chat": wide, "chat-group": MODEL}, nodePools=H100)
    )
    assert "allow 44" in only(lines(models={"m" * 45: wide}, nodePools=H100))


def test_two_models_over_capacity_get_a_sentence_each_with_their_own_numbers(lines):
    other = {**MODEL, "replicas": 10}
    first, second = lines(models={"chat-model": {**MODEL, "replicas": 20}, "other": other})[:2]
    assert (
        "models.chat-model.replicas: 20 x 1 = 20 accelerators do not fit pool 'l40s', which has 8."
        " Lower replicas to at most 8" in first
    )
    assert (
        "models.other.replicas: 10 x 1 = 10 accelerators do not fit pool 'l40s', which has 8. Lower"
        " replicas to at most 8" in second
    )
    [found] = lines(
        models={"chat-model": {**MODEL, "replicas": 5}, "other": {**MODEL, "replicas": 5}}
    )[:2]
    assert (
        "models.other.replicas: 5 x 1 = 5 accelerators do not fit pool 'l40s', which has 8, 5 of"
        " them for models above" in found
    )
    assert "Lower replicas to at most 3" in found
