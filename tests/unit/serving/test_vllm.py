from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.handles import CaBundle, SecretRef
from inferplan.components.serving.vllm.service import endpoint, serve_args, server
from inferplan.components.sources import ModelMount, VolumeClaim
from tests.unit.serving.models import (
    BUCKET,
    GAUDI2,
    KEY,
    L40S,
    MOUNT,
    container_of,
    declared,
    deployment_of,
    pool,
    site,
    vllm,
)
from tests.unit.serving.vllm_flags import complaints

POD_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_replica_claims_every_card_that_it_shards_over():
    resources = container_of(vllm(tensorParallelSize=4))["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == "4"
    assert resources["requests"]["nvidia.com/gpu"] == "4"


def test_a_gaudi_replica_asks_for_its_cards_and_huge_pages_alike_in_requests_and_limits():
    resources = container_of(vllm(tensorParallelSize=2), target=GAUDI2)["resources"]
    for key in ("habana.ai/gaudi", "hugepages-2Mi", "memory"):
        assert resources["requests"][key] == resources["limits"][key]
    assert resources["limits"]["habana.ai/gaudi"] == "2"


def test_as_many_replicas_as_a_node_has_cards_fit_its_cpu_memory_and_huge_pages_by_default():
    from inferplan.components.serving.demand import demand_of
    from inferplan.kube.quantity import bytes_of, millicores_of

    for target in (L40S, GAUDI2, pool("nvidia-h100"), pool("nvidia-t4")):
        capacity = target.capacity
        demand = demand_of(vllm(), 1, target)
        assert millicores_of(demand["cpu"]) * capacity.accelerators <= capacity.cpu_millicores
        assert bytes_of(demand["memory"]) * capacity.accelerators <= capacity.memory_bytes
        assert (
            bytes_of(demand.get("hugepages-2Mi", "0")) * capacity.accelerators
            <= capacity.hugepages_2mi_bytes
        )


def test_a_pod_shows_a_mark_of_its_server_key_so_that_a_new_key_starts_it_anew():
    template = deployment_of(vllm())["template"]
    assert template["metadata"]["annotations"] == {"inferplan.dev/server-key": "0123456789abcdef"}


def test_a_leader_accepts_two_keys_while_there_are_two_and_shows_a_mark_of_each():
    next_key = SecretRef(name=KEY.name, key="next-api-key")
    template = deployment_of(
        vllm(), server_key_marks={KEY: "0123456789abcdef", next_key: "fedcba9876543210"}
    )["template"]
    assert template["metadata"]["annotations"] == {
        "inferplan.dev/server-key": "0123456789abcdef,fedcba9876543210"
    }
    [container] = template["spec"]["containers"]
    assert container["args"][-3:] == ["--api-key", "$(VLLM_API_KEY)", "$(NEXT_API_KEY)"]
    keys = {
        each["name"]: each["valueFrom"]["secretKeyRef"]["key"]
        for each in container["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }
    assert keys == {"VLLM_API_KEY": KEY.key, "NEXT_API_KEY": "next-api-key"}
    assert "--api-key" not in container_of(vllm())["args"]


def test_gaudi_gets_the_validated_options_and_its_own_image_and_never_a_visible_devices_literal():
    container = container_of(vllm(tensorParallelSize=2), target=GAUDI2)
    names = {each["name"] for each in container["env"]}
    assert {"--dtype=bfloat16", "--block-size=128"} <= set(container["args"])
    assert container["image"].startswith("vault.habana.ai/")
    assert "PT_HPU_ENABLE_LAZY_COLLECTIVES" in names
    assert not names & {"HABANA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}


def test_a_card_without_bfloat16_serves_in_half_precision():
    assert "--dtype=half" in serve_args("chat", vllm(), target=pool("nvidia-t4"))


def test_the_dtype_that_a_user_wrote_wins_over_the_cards_default():
    assert "--dtype=float16" in serve_args(
        "chat",
        vllm(dtype="float16"),
        target=GAUDI2,
    )


EVERYTHING: dict[str, Any] = {
    "maxModelLen": 8192, "maxNumSeqs": 64, "maxNumBatchedTokens": 4096, "gpuMemoryUtilization": 0.9, "dtype": "auto",
    "quantization": "fp8", "kvCacheDtype": "fp8", "blockSize": 32, "enablePrefixCaching": False, "tensorParallelSize": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"pipelineParallelSize": 4, "nnodes": 2},
        {"loraAdapters": {"a": "a"}, "maxLoraRank": 8, "maxLoras": 2},
    ],
)
def test_every_argument_is_an_option_that_vllm_itself_takes_with_that_value(more):
    spec = vllm(**EVERYTHING, **more)
    for weights in (MOUNT, BUCKET):
        made = server("chat", spec, site(weights=weights))
        for model, *options in (made.args, made.worker_args):
            assert not model.startswith("-")
            assert complaints(options) == []


def test_the_check_of_arguments_finds_what_the_parser_refuses():
    assert complaints(["--no-such"]) == ["--no-such is no option"]
    assert complaints(["--kv-cache-dtype=fp9"]) == ["--kv-cache-dtype cannot be fp9"]
    assert complaints(["--enforce-eager=yes"]) == ["--enforce-eager takes no value"]
    assert complaints(["--nnodes", "--enforce-eager"]) == ["--nnodes takes one value and got 0"]
    assert complaints(["--lora-modules", "a=b", "c=d", "--nnodes=2"]) == []


def test_adapters_are_loaded_from_beside_the_weights_and_served_by_name():
    spec = vllm(loraAdapters={"polite": "lora/polite", "terse": "lora/terse"}, maxLoraRank=32)
    arguments = serve_args("chat", spec, target=L40S)
    start = arguments.index("--lora-modules")
    assert arguments[start - 1 : start + 3] == [
        "--enable-lora",
        "--lora-modules",
        "polite=/models/chat/lora/polite",
        "terse=/models/chat/lora/terse",
    ]
    assert "--max-lora-rank=32" in arguments
    assert endpoint("chat", spec, KEY).served_names == ("chat", "polite", "terse")
    assert (spec.reads_buckets, vllm().reads_buckets) == (False, True)


def test_a_disabled_switch_becomes_vllms_negated_option():
    assert "--no-enable-prefix-caching" in serve_args(
        "chat",
        vllm(enablePrefixCaching=False),
        target=L40S,
    )


def test_weights_in_a_bucket_are_streamed_without_any_volume_of_theirs():
    pod = deployment_of(vllm(), weights=BUCKET)["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"][0] == "s3://acme-weights/llm/llama"
    assert "--load-format=runai_streamer" in container["args"]
    assert {volume["name"] for volume in pod["volumes"]} == {"shm", "tmp", "cache"}
    env = {each["name"]: each for each in container["env"]}
    assert env["AWS_ENDPOINT_URL"]["value"] == "http://minio:9000"
    assert env["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"] == {
        "name": "minio",
        "key": "AWS_SECRET_ACCESS_KEY",
    }


@pytest.mark.parametrize(
    "fields", [{}, {"nnodes": 2, "tensorParallelSize": 8}], ids=["one pod", "several pods"]
)
def test_a_loader_that_streams_from_behind_a_private_ca_is_lent_its_certificate(fields):
    store = replace(
        BUCKET, endpoint="https://minio:9000", ca=CaBundle(kind="Secret", name="acme-ca")
    )
    pods = pods_of(vllm(**fields), store)
    assert len(pods) == (2 if fields else 1)
    for pod in pods:
        [container] = pod["containers"]
        assert {"name": "AWS_CA_BUNDLE", "value": "/ca/ca.crt"} in container["env"]
        assert {"name": "ca", "mountPath": "/ca", "readOnly": True} in container["volumeMounts"]
        held = {"secretName": "acme-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
        assert {"name": "ca", "secret": held} in pod["volumes"]


def pods_of(spec, weights):
    """The pods of a model's replicas, of whatever kind the object is that makes them."""
    recording = declared(spec, weights=weights)
    if spec.pods == 1:
        return [recording.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]]
    group = recording.one("kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet").inputs["spec"][
        "leaderWorkerTemplate"
    ]
    return [group[each]["spec"] for each in ("leaderTemplate", "workerTemplate")]


def test_mounted_weights_are_read_only_and_of_the_verified_directory_alone():
    pod = deployment_of(vllm())["template"]["spec"]
    mount = next(each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "model")
    assert mount == {
        "name": "model",
        "mountPath": "/models/chat",
        "subPath": "llama/abc-r0",
        "readOnly": True,
    }


def test_the_server_key_travels_as_a_reference_only():
    [key] = [each for each in container_of(vllm())["env"] if each["name"] == "VLLM_API_KEY"]
    assert key == {
        "name": "VLLM_API_KEY",
        "valueFrom": {"secretKeyRef": {"name": KEY.name, "key": KEY.key}},
    }


@pytest.mark.parametrize("target", [L40S, GAUDI2], ids=["nvidia", "gaudi"])
def test_a_pod_fits_the_restricted_profile(target):
    pod = deployment_of(vllm(), target=target)["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostIPC", "hostNetwork", "hostPID"} & pod.keys()
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert POD_SECURITY.items() <= container["securityContext"].items()
    assert {key for volume in pod["volumes"] for key in volume} <= {
        "name",
        "emptyDir",
        "persistentVolumeClaim",
    }


def test_a_pod_carries_no_account_token_and_no_service_links():
    pod = deployment_of(vllm())["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False


def test_a_replica_is_replaced_in_place_so_that_a_full_pool_never_deadlocks():
    assert deployment_of(vllm())["strategy"]["rollingUpdate"] == {
        "maxSurge": 0,
        "maxUnavailable": 1,
    }
    assert deployment_of(vllm(rollout="surge"))["strategy"]["rollingUpdate"] == {
        "maxSurge": 1,
        "maxUnavailable": 0,
    }


def test_only_a_model_with_replicas_to_spare_has_a_disruption_budget():
    kind = "kubernetes:policy/v1:PodDisruptionBudget"
    assert declared(vllm(replicas=1)).of_type(kind) == []
    budget = declared(vllm(replicas=2)).one(kind).inputs["spec"]
    assert budget["maxUnavailable"] == 1


def test_a_scaled_to_zero_model_keeps_its_service_and_asks_for_no_pod():
    recording = declared(vllm(replicas=0))
    assert recording.one("kubernetes:apps/v1:Deployment").inputs["spec"]["replicas"] == 0
    assert recording.of_type("kubernetes:core/v1:Service")


def test_only_the_gateway_may_reach_the_server():
    spec = declared(vllm()).one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    [rule] = spec["ingress"]
    assert [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in rule["from"]
    ] == ["gateway"]
    assert rule["ports"] == [{"port": 8000, "protocol": "TCP"}]


def test_pulumi_waits_longer_than_kubernetes_before_it_gives_a_rollout_up():
    made = declared(vllm(replicas=4)).one("kubernetes:apps/v1:Deployment")
    seconds = int((made.options.custom_timeouts.create or "0s").removesuffix("s"))
    assert seconds >= 4 * made.inputs["spec"]["progressDeadlineSeconds"]


def test_the_previewed_intent_is_what_the_user_wrote_without_defaults():
    [component] = declared(vllm(replicas=3)).of_type("inferplan:serving:ModelService")
    assert component.inputs["spec"] == {
        "engine": "vllm",
        "weights": {"store": "weights", "path": "llama", "size": "16Gi"},
        "pool": "p",
        "replicas": 3,
    }


def test_a_pod_finds_the_ready_mark_before_it_starts_a_server_on_preheated_files():
    marked = ModelMount(claim=VolumeClaim(name="shared"), sub_path="llama/abc-r0", marked=True)
    pod = deployment_of(vllm(), weights=marked)["template"]["spec"]
    [gate] = pod["initContainers"]
    assert "/models/chat/llama/abc-r0/READY" in gate["command"][-1]
    # Not the subPath: a kubelet would make it as root before the Job can.
    assert [each.get("subPath") for each in gate["volumeMounts"]] == [None]
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "model"]
    assert gate["volumeMounts"] == [
        {key: value for key, value in mount.items() if key != "subPath"}
    ]
    assert POD_SECURITY.items() <= gate["securityContext"].items()


def test_files_that_nobody_preheats_carry_no_mark_to_wait_for():
    assert "initContainers" not in deployment_of(vllm())["template"]["spec"]


def test_a_usage_log_changes_the_program_of_each_pod_and_nothing_else():
    plain, counted = container_of(vllm()), container_of(vllm(usageLog=True))
    assert counted["command"] == ["python3", "/usage/vllm", "serve"]
    assert counted["args"] == plain["args"]
    [mount] = [each for each in counted["volumeMounts"] if each not in plain["volumeMounts"]]
    assert mount == {"name": "files", "mountPath": "/usage", "readOnly": True}
    declared_files = (
        declared(vllm(usageLog=True)).one("kubernetes:core/v1:ConfigMap").inputs["data"]
    )
    script = files("inferplan.components.serving.vllm") / "payload" / "usage_log.py"
    assert declared_files == {"vllm": script.read_text("utf-8")}


def test_a_usage_log_and_statistics_that_are_off_exclude_each_other():
    with pytest.raises(ValidationError, match="usageLog reads vLLM's statistics"):
        vllm(usageLog=True, extraArgs=["--disable-log-stats"])
