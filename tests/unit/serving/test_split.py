"""Split prefill and decode: two sides of one model that exchange KV caches, behind one router."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.serving.groups import answering
from inferplan.components.serving.sglang.spec import SglangSpec
from inferplan.components.serving.spec import engine_of
from tests.recorder import declare
from tests.unit.serving.models import GATEWAY, MOUNT, pool, site, vllm

SIDES = {"prefill": {"replicas": 2}, "decode": {"replicas": 1}}
ROUTER = {"app.kubernetes.io/component": "router", "app.kubernetes.io/instance": "chat-router"}
H100 = pool("nvidia-h100", machine="p5.48xlarge")


def sglang(**fields: Any) -> SglangSpec:
    weights = {"store": "weights", "path": "llama", "size": "16Gi"}
    return SglangSpec.model_validate(
        {"engine": "sglang", "weights": weights, "preheat": {"into": "s"}, "pool": "p", **fields}
    )


ENGINES = {"vllm": vllm, "sglang": sglang}


@pytest.fixture(params=ENGINES, scope="module")
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def declared(engine):
    """The objects of both sides, as the stack declares them: prefill first."""

    def both() -> None:
        peers: list[Any] = []
        for name, side in ENGINES[engine](**SIDES).parts("chat").items():
            engine_of(side).serve(name, side, site(target=H100, weights=MOUNT, peers=peers))

    recording = declare(both)
    return {
        (each.type.rpartition(":")[2], each.name): each.inputs for each in recording.registrations
    }


def labels(declared, name):
    return declared["Deployment", name]["spec"]["template"]["metadata"]["labels"]


def container(declared, name):
    [container] = declared["Deployment", name]["spec"]["template"]["spec"]["containers"]
    return container


def test_each_side_has_servers_that_the_selectors_of_the_router_take(declared):
    for name, replicas in (("chat-prefill", 2), ("chat", 1)):
        deployment = declared["Deployment", name]["spec"]
        assert deployment["replicas"] == replicas
        assert answering(name).items() <= labels(declared, name).items()
    assert declared["PodDisruptionBudget", "chat-prefill"]["spec"]["maxUnavailable"] == 1


def test_the_service_has_the_servers_that_answer_alone(engine, declared):
    assert ("Service", "chat-prefill") not in declared
    chosen = declared["Service", "chat"]["spec"]["selector"].items()
    assert chosen <= labels(declared, "chat").items()
    # An SGLang server of one side answers no call without the other.
    assert (chosen <= labels(declared, "chat-prefill").items()) is (engine == "vllm")


def test_the_gateway_the_router_and_the_sides_alone_reach_a_side(engine, declared):
    for name in ("chat", "chat-prefill"):
        rules = declared["NetworkPolicy", name]["spec"]["ingress"]
        callers = [[each["podSelector"]["matchLabels"] for each in rule["from"]] for rule in rules]
        announced = [[ROUTER]] * (engine == "sglang" and name == "chat-prefill")
        assert callers == [[GATEWAY, ROUTER], *announced]
    transfer = declared["NetworkPolicy", "chat-transfer"]["spec"]
    both = transfer["podSelector"]["matchLabels"]
    [way_in], [way_out] = transfer["ingress"], transfer["egress"]
    assert [each["podSelector"]["matchLabels"] for each in way_in["from"]] == [both]
    assert [each["podSelector"]["matchLabels"] for each in way_out["to"]] == [both]
    for name in ("chat", "chat-prefill"):
        assert both.items() <= labels(declared, name).items()
    assert not both.items() <= ROUTER.items()


def test_both_sides_have_one_name_and_the_model_at_one_path(declared):
    # vLLM compares the path when two servers meet (NixlConnector's compatibility hash).
    for side in ("chat", "chat-prefill"):
        arguments = container(declared, side)["args"]
        assert "--served-model-name=chat" in arguments
        assert any(each.removeprefix("--model-path=") == "/models/chat" for each in arguments)
        mounts = {each["mountPath"] for each in container(declared, side)["volumeMounts"]}
        assert "/models/chat" in mounts


def test_vllm_moves_kv_caches_by_nixl_and_reads_a_prompt_itself_if_one_is_lost():
    for name, side in vllm(**SIDES).parts("chat").items():
        made = declare(lambda side=side, name=name: engine_of(side).serve(name, side, site()))
        pod = made.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]
        assert pod["metadata"]["annotations"]["smg.ai/kv-connector"] == "NixlConnector"
        [server] = pod["spec"]["containers"]
        [config] = [each for each in server["args"] if each.startswith("--kv-transfer-config=")]
        assert json.loads(config.partition("=")[2]) == {
            "kv_connector": "NixlConnector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
        }
        variables = {each["name"]: each for each in server["env"]}
        host = variables["VLLM_NIXL_SIDE_CHANNEL_HOST"]["valueFrom"]["fieldRef"]
        assert host == {"fieldPath": "status.podIP"}


def test_sglang_starts_each_side_in_its_mode_with_the_port_that_the_router_reads():
    modes = {}
    for name, side in sglang(**SIDES).parts("chat").items():
        made = declare(lambda side=side, name=name: engine_of(side).serve(name, side, site()))
        pod = made.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]
        arguments = pod["spec"]["containers"][0]["args"]
        [modes[name]] = [each for each in arguments if each.startswith("--disaggregation-mode")]
        assert "--disaggregation-transfer-backend=nixl" in arguments
        port = pod["metadata"].get("annotations", {}).get("sglang.ai/bootstrap-port")
        assert port == ("8998" if name == "chat-prefill" else None)
    assert modes == {
        "chat-prefill": "--disaggregation-mode=prefill",
        "chat": "--disaggregation-mode=decode",
    }


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"prefill": {}}, r"prefill without decode.*Add decode: \{replicas: 1\}"),
        ({"decode": {}}, r"decode without prefill.*Add prefill: \{replicas: 1\}"),
        ({**SIDES, "replicas": 2}, "Write them below prefill and decode"),
        ({"prefill": {"replicas": 0}, "decode": {}}, "Use 1 at least"),
        ({"prefill": {}, "decode": {"replicas": {"min": 0, "max": 2}}}, "Use 1 at least"),
        (
            {"prefill": {"tensorParallelSize": 3}, "decode": {"tensorParallelSize": 2}},
            "Use tensorParallelSize: 2",
        ),
        ({**SIDES, "nnodes": 2, "tensorParallelSize": 8}, "Remove nnodes"),
        ({**SIDES, "loraAdapters": {"polite": "a"}}, "Remove prefill and decode, or serve"),
    ],
)
def test_sides_that_could_not_work_are_errors(engine, written, words):
    with pytest.raises(ValidationError, match=words):
        ENGINES[engine](**written)


def test_sizes_of_which_one_is_a_multiple_of_the_other_are_no_error(engine):
    spec = ENGINES[engine](prefill={"tensorParallelSize": 2}, decode={"tensorParallelSize": 4})
    sizes = {name: side.tensor_parallel_size for name, side in spec.parts("chat").items()}
    assert sizes == {"chat-prefill": 2, "chat": 4}
