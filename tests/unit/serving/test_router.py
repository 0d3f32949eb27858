"""The router of a model: what it is allowed, where it is reached, and what it must not be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from inferplan.components.handles import SecretRef
from inferplan.components.router.router import RoutedModel, Router, router_args
from inferplan.components.router.spec import RouterSpec, router_address
from inferplan.components.serving.groups import answering
from inferplan.components.serving.sglang.service import endpoint as sglang_endpoint
from inferplan.components.serving.sglang.spec import SglangSpec
from inferplan.components.serving.vllm.service import endpoint
from tests.recorder import declare
from tests.unit.serving.models import GATEWAY, KEY, declared, vllm

NEXT = SecretRef(name="chat-server-key", key="next")
ROUTER = {"app.kubernetes.io/component": "router", "app.kubernetes.io/instance": "chat-router"}


ROUTED = RoutedModel(
    name="chat",
    names=("chat", "gpt-4o"),
    namespace="inference",
    pods=answering("chat"),
    port=8000,
    keys={KEY: "a1"},
    gateway=GATEWAY,
    drain_seconds=60,
    start_seconds=1200,
)
ROTATING = replace(ROUTED, keys={KEY: "a1", NEXT: "b2"})


def router(**written):
    return declare(lambda: Router(RouterSpec.model_validate(written), ROUTED))


def one(recording, kind):
    return recording.one(f"kubernetes:{kind}").inputs


def test_its_account_may_read_pods_of_its_namespace_and_nothing_else():
    made = router()
    role = one(made, "rbac.authorization.k8s.io/v1:Role")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    ]
    binding = one(made, "rbac.authorization.k8s.io/v1:RoleBinding")
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "chat-router",
    }
    assert [each["name"] for each in binding["subjects"]] == ["chat-router"]
    pod = one(made, "apps/v1:Deployment")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == "chat-router"


def test_the_gateway_alone_reaches_it_and_it_reaches_the_pods_that_serve():
    spec = one(router(), "networking.k8s.io/v1:NetworkPolicy")["spec"]
    assert spec["ingress"] == [
        {
            "from": [{"podSelector": {"matchLabels": GATEWAY}}],
            "ports": [{"port": 30000, "protocol": "TCP"}],
        }
    ]
    assert spec["egress"][0] == {
        "to": [{"podSelector": {"matchLabels": answering("chat")}}],
        "ports": [{"port": 8000, "protocol": "TCP"}],
    }
    networks = [each["ipBlock"]["cidr"] for each in spec["egress"][1]["to"]]
    assert "10.0.0.0/8" in networks
    assert "0.0.0.0/0" not in networks


def test_a_routed_model_admits_the_router_and_another_model_does_not():
    def admitted(spec):
        policy = declared(spec).one("kubernetes:networking.k8s.io/v1:NetworkPolicy")
        return [
            each["podSelector"]["matchLabels"]
            for each in policy.inputs["spec"]["ingress"][0]["from"]
        ]

    assert admitted(vllm(router={})) == [GATEWAY, ROUTER]
    assert admitted(vllm()) == [GATEWAY]


def test_the_gateway_finds_the_router_of_both_engines():
    sglang = SglangSpec.model_validate(
        {
            "engine": "sglang",
            "weights": {"store": "weights", "path": "llama", "size": "16Gi"},
            "preheat": {"into": "shared"},
            "pool": "p",
            "router": {},
        }
    )
    assert endpoint("chat", vllm(router={}), KEY).router == router_address("chat")
    assert sglang_endpoint("chat", sglang, KEY).router == router_address("chat")
    assert endpoint("chat", vllm(), KEY).router is None


def test_two_pods_stay_while_nodes_drain_and_a_change_of_keys_restarts_them():
    made = router()
    deployment = one(made, "apps/v1:Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert one(made, "policy/v1:PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    both = declare(lambda: Router(RouterSpec(), ROTATING))
    marks = [
        each["spec"]["template"]["metadata"]["annotations"]
        for each in (one(made, "apps/v1:Deployment"), one(both, "apps/v1:Deployment"))
    ]
    assert marks[0] != marks[1]
    assert "a1,b2" in marks[1].values()
    with pytest.raises(LookupError):
        one(router(replicas=1), "policy/v1:PodDisruptionBudget")


def test_no_argument_has_a_key():
    arguments = router_args(RouterSpec(), ROTATING)
    keys = [each for each in arguments if "key" in each]
    assert "--model-alias=gpt-4o=chat" in arguments
    assert keys == ["--api-key=$(ROUTER_KEY)", "--tenant-api-key=next:$(NEXT_KEY)"]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"router": {}, "replicas": {"min": 0, "max": 2}}, "Use min: 1"),
        ({"router": {}, "task": "embed"}, "its task is embed"),
        ({"router": {"policy": "cacheAware"}}, "prefix_hash"),
        ({"router": {}, "loraAdapters": {"polite": "a/polite"}}, "names of adapters \\(polite\\)"),
    ],
)
def test_a_router_that_could_not_work_is_an_error(written, words):
    with pytest.raises(ValidationError, match=words):
        vllm(**written)
