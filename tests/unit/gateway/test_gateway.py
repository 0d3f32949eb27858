"""What the gateway and its keys register, and that no secret is anywhere but in Secrets."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from itertools import pairwise

import pulumi
import pytest

from inferplan.components.gateway import keys
from inferplan.components.gateway.api_keys import ApiKeys
from inferplan.components.gateway.config_maps import divided
from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.gateway import GATEWAY_PODS, Gateway
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import EndpointProtocol, SecretRef
from inferplan.pulumi_engine.values import Secret, reveal
from tests import recorder
from tests.printed_keys import read_key
from tests.unit.gateway.declared import (
    CONSUMERS,
    DEPLOYMENT,
    SECRET,
    SEED,
    declare,
    endpoint,
    pod_of,
    proxy_secret_of,
)


def test_a_secret_for_each_server_each_consumer_and_the_proxy():
    secrets = {
        each.inputs["metadata"]["name"]: each.inputs["data"] for each in declare().of_type(SECRET)
    }
    proxy = proxy_secret_of(declare())
    assert sorted(secrets) == ["consumer-batch", "consumer-chat", proxy, "llama-server-key"]
    assert all(isinstance(data, Secret) for data in secrets.values())
    read = {
        name: {key: base64.b64decode(value).decode() for key, value in reveal(data).items()}
        for name, data in secrets.items()
    }
    assert read["consumer-chat"] == {"api-key": keys.consumer_key(SEED, "chat", 2)}
    assert read["llama-server-key"] == {"api-key": keys.server_key(SEED, "llama")}
    assert list(read[proxy]) == ["keys.conf"]


def test_the_proxys_secret_is_named_by_what_its_content_depends_on():
    # A pod that restarts during a rollout must find the Secret that it was created with.
    three = CONSUMERS | {"chat": ConsumerSpec.model_validate({"keys": [3, 2, 1]})}
    last_day = {"keys": [2, 1], "expires": {1: "2027-01-31"}}
    variants = [
        declare(),
        declare(consumers=three),
        declare(consumers=CONSUMERS | {"chat": ConsumerSpec.model_validate(last_day)}),
        declare(previous_seed=f"{SEED}-previous"),
        declare(endpoint("llama"), endpoint("qwen")),
    ]
    names = [proxy_secret_of(each) for each in variants]
    assert all(re.fullmatch("gateway-keys-[0-9a-f]{10}", name) for name in names)
    assert len(set(names)) == len(names)
    # The name is known without the passphrase, and the same resource keeps it.
    assert proxy_secret_of(declare(seed=SEED[::-1])) == names[0]
    for recording, name in zip(variants, names, strict=True):
        [secret] = [
            each for each in recording.of_type(SECRET) if each.inputs["metadata"]["name"] == name
        ]
        assert secret.name == name


def test_the_mark_of_a_server_key_changes_with_the_seed_is_shown_and_is_no_part_of_the_key():
    def mark(seed):
        def program():
            ring = ApiKeys(
                "api-keys",
                CONSUMERS,
                ["llama", "qwen"],
                namespace="inference",
                seeds=[pulumi.Output.secret(seed)],
            )
            for model in ("llama", "qwen"):
                [mark] = ring.server_key_marks(model).values()
                pulumi.export(model, mark)

        return dict(recorder.declare(program).outputs)

    marks, others = mark(SEED), mark(SEED.replace("canary", "wicket"))
    assert len({*marks.values(), *others.values()}) == 4
    assert all(
        isinstance(each, str) and each not in keys.server_key(SEED, model)
        for model, each in marks.items()
    )


def server_secrets(recording) -> dict[str, dict[str, str]]:
    """The content of each Secret of a model's server, by name."""
    return {
        name: {
            field: base64.b64decode(value).decode()
            for field, value in reveal(each.inputs["data"]).items()
        }
        for each in recording.of_type(SECRET)
        if "-server-key" in (name := each.inputs["metadata"]["name"])
    }


def test_with_a_previous_seed_a_server_reads_both_keys_and_consumers_the_new_one():
    lent = {}
    recording = declare(seed=SEED[::-1], previous_seed=SEED, lent=lent)
    old, new = (keys.server_key(each, "llama") for each in (SEED, SEED[::-1]))
    assert server_secrets(recording) == {
        "llama-server-key": {"api-key": old},
        "llama-server-keys": {"api-key": old, "next-api-key": new},
    }
    [consumer] = [
        each.inputs["data"]
        for each in recording.of_type(SECRET)
        if each.inputs["metadata"]["name"] == "consumer-chat"
    ]
    assert base64.b64decode(reveal(consumer)["api-key"]).decode() == keys.consumer_key(
        SEED[::-1], "chat", 2
    )
    # vLLM and SGLang read the first two, servers that take one key the last.
    assert [(each.name, each.key) for each in lent["ring"].server_key_marks("llama")] == [
        ("llama-server-keys", "api-key"),
        ("llama-server-keys", "next-api-key"),
        ("llama-server-key", "api-key"),
    ]


def test_a_rotation_changes_no_secret_that_a_server_of_the_step_before_reads():
    """Such a server may start again while the update waits for room: it has to find its keys."""
    steps = [(SEED, None), (SEED[::-1], SEED), (SEED[::-1], None)]
    states = [server_secrets(declare(seed=seed, previous_seed=old)) for seed, old in steps]
    for before, after in pairwise(states):
        # A server with two keys reads the Secret with both, if there is one. What the next step does
        # not declare is deleted when its rollout has ended.
        [*_, read] = sorted(before)
        assert after.get(read, before[read]) == before[read]


def test_references_to_keys_are_lent_and_unknown_ones_refused():
    lent = {}
    declare(lent=lent)
    assert lent["ring"].server_key("llama") == SecretRef(name="llama-server-key", key="api-key")
    assert lent["ring"].consumer_key("chat") == SecretRef(name="consumer-chat", key="api-key")
    with pytest.raises(KeyError, match="llama-2"):
        lent["ring"].server_key("llama-2")
    with pytest.raises(KeyError, match="Consumers in this stack: batch, chat"):
        lent["ring"].consumer_key("ghost")
    assert lent["gateway"].url == "https://llm.test"


@pytest.mark.parametrize("preview", [True, False])
def test_no_secret_is_anywhere_but_in_secrets(preview):
    recording = declare(preview=preview)
    canaries = [SEED, SEED[:20], SEED[-20:], keys.pepper(SEED), keys.server_key(SEED, "llama")]
    canaries += [
        read_key(keys.consumer_key(SEED, name, version)).secret
        for name, version in (("chat", 2), ("chat", 1), ("batch", 1))
    ]
    canaries += [keys.proxy_digest(keys.consumer_key(SEED, "chat", 2), keys.pepper(SEED))]
    everything = repr(recording) + repr(recording.component_outputs) + repr(recording.diagnostics)
    everything += json.dumps([each.inputs for each in recording], default=repr) + repr(
        recording.outputs
    )
    for canary in canaries:
        for spelled in (
            canary,
            base64.b64encode(canary.encode()).decode().rstrip("=")[:-1],
            canary.encode().hex(),
        ):
            assert spelled not in everything
    config = recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    assert set(config) == {"nginx.conf", "prepare.sh", "gateway.js"}


def test_an_unknown_seed_leaves_the_plan_whole():
    unknown = {}

    def program():
        from pulumi_kubernetes.core.v1 import ConfigMap

        late = pulumi.Output.secret(
            ConfigMap("late").metadata.apply(lambda metadata: metadata.uid or "")
        )
        ring = ApiKeys("api-keys", CONSUMERS, ["llama"], namespace="inference", seeds=[late])
        spec = NginxGatewaySpec.model_validate({"exposure": "internal"})
        unknown["gateway"] = Gateway(
            "gateway", spec, namespace="inference", endpoints=[endpoint("llama")], keys=ring
        )

    known = sorted(
        (each.type, each.name) for each in declare(exposure="internal", host=None, tls=None)
    )
    assert (
        sorted((each.type, each.name) for each in recorder.declare(program) if each.name != "late")
        == known
    )


def test_a_weak_seed_is_refused_without_being_shown():
    with pytest.raises(Exception, match="apiKeySeed") as refused:
        declare(seed="tooshort-canary")
    assert "tooshort-canary" not in str(refused.value)


def test_a_change_of_keys_rolls_the_pods_and_nothing_else_of_the_workload():
    before, after = (
        declare(),
        declare(consumers={**CONSUMERS, "chat": ConsumerSpec.model_validate({"keys": [3, 2]})}),
    )
    changed = [one.name for one, two in zip(before, after, strict=True) if one.inputs != two.inputs]
    proxy = proxy_secret_of(declare())
    assert sorted(changed) == ["api-keys", "api-keys-consumer-chat", "gateway", proxy]
    marks = [
        pod_of(each)["metadata"]["annotations"]["inferplan.dev/keys"] for each in (before, after)
    ]
    assert marks[0] != marks[1]


def test_the_pods_wait_for_the_secret_s_latest_content():
    recording = declare()
    secret = next(
        each for each in recording.of_type(SECRET) if each.name == proxy_secret_of(recording)
    )
    assert secret.urn in recording.one(DEPLOYMENT).dependencies


def test_a_change_of_configuration_makes_a_config_map_beside_the_old_one():
    before, after = declare(), declare(endpoint("llama"), endpoint("mistral"))
    names = [
        each.one("kubernetes:core/v1:ConfigMap").inputs["metadata"]["name"]
        for each in (before, after)
    ]
    assert names[0] != names[1]
    assert all(name.startswith("gateway-config-") for name in names)
    volumes = {each["name"]: each for each in pod_of(after)["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == names[1]


def test_a_configuration_beyond_one_config_map_has_several_in_one_folder(monkeypatch):
    small = partial(divided, most=70_000)
    monkeypatch.setattr("inferplan.components.gateway.gateway.divided", small)
    models = [endpoint(f"model-{number}") for number in range(150)]
    recording = declare(*models)
    maps = recording.of_type("kubernetes:core/v1:ConfigMap")
    files = {name: text for each in maps for name, text in each.inputs["data"].items()}
    assert {*files} == {"nginx.conf", "prepare.sh", "gateway.js", "map-1.conf", "map-2.conf"}
    assert all(sum(map(len, each.inputs["data"].values())) <= 70_000 for each in maps)
    assert "    include /etc/gateway/map-1.conf;\n" in files["nginx.conf"]
    volumes = {each["name"]: each for each in pod_of(recording)["spec"]["volumes"]}
    sources = volumes["config"]["projected"]["sources"]
    assert {each["configMap"]["name"] for each in sources} == {
        each.inputs["metadata"]["name"] for each in maps
    }
    for each in maps:
        assert each.urn in recording.one(DEPLOYMENT).dependencies


def test_the_pods_meet_the_restricted_profile_and_hold_no_token():
    pod = pod_of(declare())["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {each["name"]: each["value"] for each in pod["securityContext"]["sysctls"]} == {
        "net.ipv4.ip_local_port_range": "10000 65535",
        "net.ipv4.tcp_keepalive_time": "60",
        "net.ipv4.tcp_keepalive_intvl": "20",
        "net.ipv4.tcp_keepalive_probes": "3",
    }
    for container in pod["containers"] + pod["initContainers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
    assert all("emptyDir" not in each or each["emptyDir"]["sizeLimit"] for each in pod["volumes"])
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(pod["containers"][0])


def test_a_replica_leaves_only_when_its_successor_is_ready():
    strategy = declare().one(DEPLOYMENT).inputs["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}
    assert strategy["type"] == "RollingUpdate"
    # Beyond the engine's own ten minutes, which a load balancer's health checks of a few pods can
    # take.
    assert declare().one(DEPLOYMENT).options.custom_timeouts.update == "30m"


def test_a_disruption_budget_exists_exactly_when_there_are_several_replicas():
    budget = "kubernetes:policy/v1:PodDisruptionBudget"
    assert declare().one(budget).inputs["spec"]["maxUnavailable"] == 1
    assert declare(replicas=1).of_type(budget) == []


def test_an_autoscaler_owns_the_number_of_replicas():
    recording = declare(autoscaling={"maxReplicas": 6})
    assert recording.one(DEPLOYMENT).options.ignore_changes == ("spec.replicas",)
    assert declare().one(DEPLOYMENT).options.ignore_changes == ()
    scaling = recording.one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["spec"]
    assert (scaling["minReplicas"], scaling["maxReplicas"]) == (2, 6)


def test_the_network_edges_are_clients_to_the_proxy_and_the_proxy_to_model_ports():
    policy = declare(
        endpoint("llama"),
        endpoint("vision", EndpointProtocol(kind="kserve-v2-http", port=8010, path="/v2")),
    ).one("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    spec = policy.inputs["spec"]
    assert spec["podSelector"]["matchLabels"] == dict(GATEWAY_PODS)
    assert spec["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
    [edge] = spec["egress"]
    assert edge["to"] == [
        {"podSelector": {"matchLabels": {"app.kubernetes.io/component": "model"}}}
    ]
    assert [each["port"] for each in edge["ports"]] == [8000, 8010]


def test_one_model_more_is_one_resource_more_here():
    assert len(declare(endpoint("a"), endpoint("b"))) == len(declare(endpoint("a"))) + 1
