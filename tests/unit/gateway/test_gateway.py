"""What the gateway and its keys register, and that no secret is anywhere but in Secrets."""

from __future__ import annotations

import base64
import json

import pulumi
import pytest

from components.gateway import keys
from components.gateway.api_keys import ApiKeys
from components.gateway.gateway import GATEWAY_PODS, Gateway
from components.gateway.spec import ConsumerSpec, GatewaySpec
from components.handles import Endpoint, Protocol, SecretRef
from rehearsal.engine.values import Secret, reveal
from tests.recorder import declare

SEED = "canary-0f3b1c5a79d24e68b1f0canary-6c2e9d4a8b7f"
CONSUMERS = {name: ConsumerSpec.model_validate(written) for name, written in {"chat": {"keys": [2, 1]}, "batch": {"keys": [1]}}.items()}
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type token
OPENAI = Protocol(kind="openai", port=8000, path="/v1")


def _endpoint(model, *protocols):
    return Endpoint(
        model=model,
        engine="vllm",
        host=model,
        protocols=protocols or (OPENAI,),
        health_path="/health",
        metrics_path="/metrics",
        metrics_port=8000,
        served_names=(model,),
        consumers=("chat",),
        server_key=SecretRef(name=f"{model}-server-key", key="api-key"),
    )


def _declare(*endpoints, seed=SEED, consumers=CONSUMERS, preview=True, lent=None, **written):
    endpoints = endpoints or (_endpoint("llama"),)
    spec = GatewaySpec.model_validate({"host": "llm.test", "tls": {"secretName": "llm-tls"}, **written})

    def program():
        ring = ApiKeys("api-keys", consumers, [each.model for each in endpoints], namespace="inference", seed=pulumi.Output.secret(seed))
        gateway = Gateway("gateway", spec, namespace="inference", endpoints=endpoints, keys=ring)
        if lent is not None:
            lent.update(ring=ring, gateway=gateway)

    return declare(program, preview=preview)


def _pod(recording):
    return recording.one(DEPLOYMENT).inputs["spec"]["template"]


def test_a_secret_for_each_server_each_consumer_and_the_proxy_by_fixed_names():
    secrets = {each.inputs["metadata"]["name"]: each.inputs["data"] for each in _declare().of_type(SECRET)}
    assert sorted(secrets) == ["consumer-batch", "consumer-chat", "gateway-keys", "llama-server-key"]
    assert all(isinstance(data, Secret) for data in secrets.values())
    read = {name: {key: base64.b64decode(value).decode() for key, value in reveal(data).items()} for name, data in secrets.items()}
    assert read["consumer-chat"] == {"api-key": keys.consumer_key(SEED, "chat", 2)}
    assert read["llama-server-key"] == {"api-key": keys.server_key(SEED, "llama")}
    assert list(read["gateway-keys"]) == ["keys.conf"]


def test_the_mark_of_a_server_key_changes_with_the_seed_is_shown_and_is_no_part_of_the_key():
    def mark(seed):
        def program():
            ring = ApiKeys("api-keys", CONSUMERS, ["llama", "qwen"], namespace="inference", seed=pulumi.Output.secret(seed))
            for model in ("llama", "qwen"):
                pulumi.export(model, ring.server_key_fingerprint(model))

        return dict(declare(program).outputs)

    marks, others = mark(SEED), mark(SEED.replace("canary", "wicket"))
    assert len({*marks.values(), *others.values()}) == 4
    assert all(isinstance(each, str) and each not in keys.server_key(SEED, model) for model, each in marks.items())


def test_references_to_keys_are_lent_and_unknown_ones_refused():
    lent = {}
    _declare(lent=lent)
    assert lent["ring"].server_key("llama") == SecretRef(name="llama-server-key", key="api-key")
    assert lent["ring"].consumer_key("chat") == SecretRef(name="consumer-chat", key="api-key")
    with pytest.raises(KeyError, match="llama-2"):
        lent["ring"].server_key("llama-2")
    with pytest.raises(KeyError, match="there are batch, chat"):
        lent["ring"].consumer_key("ghost")
    assert lent["gateway"].url == "https://llm.test"


@pytest.mark.parametrize("preview", [True, False])
def test_no_secret_is_anywhere_but_in_secrets(preview):
    recording = _declare(preview=preview)
    canaries = [SEED, SEED[:20], SEED[-20:], keys.pepper(SEED), keys.server_key(SEED, "llama")]
    canaries += [keys.read_key(keys.consumer_key(SEED, name, version)).secret for name, version in (("chat", 2), ("chat", 1), ("batch", 1))]
    canaries += [keys.proxy_digest(keys.consumer_key(SEED, "chat", 2), keys.pepper(SEED))]
    everything = repr(recording) + repr(recording.component_outputs) + repr(recording.diagnostics)
    everything += json.dumps([each.inputs for each in recording], default=repr) + repr(recording.outputs)
    for canary in canaries:
        for spelled in (canary, base64.b64encode(canary.encode()).decode().rstrip("=")[:-1], canary.encode().hex()):
            assert spelled not in everything
    config = recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    assert set(config) == {"nginx.conf", "prepare.sh"}


def test_an_unknown_seed_leaves_the_plan_whole():
    unknown = {}

    def program():
        from pulumi_kubernetes.core.v1 import ConfigMap

        late = pulumi.Output.secret(ConfigMap("late").metadata.apply(lambda metadata: metadata.uid or ""))
        ring = ApiKeys("api-keys", CONSUMERS, ["llama"], namespace="inference", seed=late)
        spec = GatewaySpec.model_validate({"exposure": "internal"})
        unknown["gateway"] = Gateway("gateway", spec, namespace="inference", endpoints=[_endpoint("llama")], keys=ring)

    known = sorted((each.type, each.name) for each in _declare(exposure="internal", host=None, tls=None))
    assert sorted((each.type, each.name) for each in declare(program) if each.name != "late") == known


def test_a_weak_seed_is_refused_without_being_shown():
    with pytest.raises(Exception, match="apiKeySeed") as refused:
        _declare(seed="tooshort-canary")
    assert "tooshort-canary" not in str(refused.value)


def test_a_change_of_keys_rolls_the_pods_and_nothing_else_of_the_workload():
    before, after = _declare(), _declare(consumers={**CONSUMERS, "chat": ConsumerSpec.model_validate({"keys": [3, 2]})})
    changed = [one.name for one, two in zip(before, after, strict=True) if one.inputs != two.inputs]
    assert sorted(changed) == ["api-keys", "api-keys", "api-keys-consumer-chat", "gateway"]
    marks = [_pod(each)["metadata"]["annotations"]["inferplan.dev/keys"] for each in (before, after)]
    assert marks[0] != marks[1]


def test_the_pods_wait_for_the_secret_s_latest_content():
    recording = _declare()
    secret = next(each for each in recording.of_type(SECRET) if each.name == "api-keys")
    assert secret.urn in recording.one(DEPLOYMENT).dependencies


def test_a_change_of_configuration_makes_a_config_map_beside_the_old_one():
    before, after = _declare(), _declare(_endpoint("llama"), _endpoint("mistral"))
    names = [each.one("kubernetes:core/v1:ConfigMap").inputs["metadata"]["name"] for each in (before, after)]
    assert names[0] != names[1]
    assert all(name.startswith("gateway-config-") for name in names)
    volumes = {each["name"]: each for each in _pod(after)["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == names[1]


def test_the_pods_meet_the_restricted_profile_and_hold_no_token():
    pod = _pod(_declare())["spec"]
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


ARN = "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d-0000-4000-8000-000000000000"
BALANCED = {
    "alb": {"tls": None, "ingressClassName": "alb", "alb": {"certificateArn": ARN}},
    "nlb": {"exposure": "loadBalancer", "tls": None, "nlb": {"certificateArn": ARN}},
}


@pytest.mark.parametrize("drain", [1, 600, 7200])
def test_the_pod_s_grace_covers_the_hook_and_the_drain(drain):
    recording = _declare(drainSeconds=drain)
    hook = _pod(recording)["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][2]
    assert hook.startswith("sleep 10;")
    assert _pod(recording)["spec"]["terminationGracePeriodSeconds"] >= 10 + drain + 5
    assert f"worker_shutdown_timeout {drain}s;" in recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]["nginx.conf"]


@pytest.mark.parametrize(("which", "seconds"), [("alb", 40), ("nlb", 150)])
def test_a_pod_behind_a_load_balancer_of_aws_takes_calls_until_that_has_learned_of_it_and_is_not_cut_before_its_drain(which, seconds):
    recording = _declare(**BALANCED[which], drainSeconds=1000)
    pod = _pod(recording)["spec"]
    assert pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][2].startswith(f"sleep {seconds};")
    assert pod["terminationGracePeriodSeconds"] > seconds + 1000
    notes = [each.inputs.get("metadata", {}).get("annotations", {}) for each in recording]
    assert f"deregistration_delay.timeout_seconds={seconds + 1000}" in [value for each in notes for value in each.values()]


@pytest.mark.parametrize("read", [1, 2000, 3990])
def test_the_proxy_keeps_idle_connections_for_longer_than_what_stands_in_front_of_it(read):
    recording = _declare(**BALANCED["alb"], readTimeoutSeconds=read)
    told = recording.one("kubernetes:networking.k8s.io/v1:Ingress").inputs["metadata"]["annotations"]
    idle = int(told["alb.ingress.kubernetes.io/load-balancer-attributes"].rpartition("=")[2])
    text = recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]["nginx.conf"]
    assert int(text.partition("keepalive_timeout ")[2].partition("s;")[0]) > max(idle, 3600)


def test_a_replica_leaves_only_when_its_successor_is_ready():
    strategy = _declare().one(DEPLOYMENT).inputs["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}
    assert strategy["type"] == "RollingUpdate"
    # Beyond the engine's own ten minutes, which a load balancer's health checks of a few pods can take.
    assert _declare().one(DEPLOYMENT).options.custom_timeouts.update == "30m"


def test_a_disruption_budget_exists_exactly_when_there_are_several_replicas():
    budget = "kubernetes:policy/v1:PodDisruptionBudget"
    assert _declare().one(budget).inputs["spec"]["maxUnavailable"] == 1
    assert _declare(replicas=1).of_type(budget) == []


def test_an_autoscaler_owns_the_number_of_replicas():
    recording = _declare(autoscaling={"maxReplicas": 6})
    assert "replicas" not in recording.one(DEPLOYMENT).inputs["spec"]
    scaling = recording.one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["spec"]
    assert (scaling["minReplicas"], scaling["maxReplicas"]) == (2, 6)


def test_the_ingress_carries_the_class_the_host_and_the_certificate_that_the_user_names():
    ingress = _declare(ingressClassName="traefik", tls={"secretName": "llm-tls", "clusterIssuer": "acme"}).one(
        "kubernetes:networking.k8s.io/v1:Ingress"
    )
    assert ingress.inputs["spec"]["ingressClassName"] == "traefik"
    assert ingress.inputs["spec"]["tls"] == [{"hosts": ["llm.test"], "secretName": "llm-tls"}]
    assert [rule["host"] for rule in ingress.inputs["spec"]["rules"]] == ["llm.test"]
    annotations = ingress.inputs["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/cluster-issuer": "acme", "pulumi.com/skipAwait": "true"}


def test_a_load_balancer_of_aws_listens_on_tls_alone_and_waits_longer_than_the_proxy():
    arn = ARN
    alb = {"certificateArn": arn, "scheme": "internet-facing", "inboundCidrs": ["198.51.100.0/24", "2001:db8::/32"]}
    lent = {}
    spoken = Protocol(kind="kserve-v2-grpc", port=8001, path="/")
    ingress = _declare(_endpoint("llama", OPENAI, spoken), tls=None, ingressClassName="alb", alb=alb, lent=lent).one(
        "kubernetes:networking.k8s.io/v1:Ingress"
    )
    annotations = ingress.inputs["metadata"]["annotations"]
    said = {key.partition("/")[2]: value for key, value in annotations.items() if key.startswith("alb.ingress.kubernetes.io/")}
    assert said == {
        "scheme": "internet-facing",
        "target-type": "ip",
        "certificate-arn": arn,
        "ssl-policy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
        "listen-ports": '[{"HTTPS":443}]',
        "load-balancer-attributes": "idle_timeout.timeout_seconds=2010",
        "target-group-attributes": "deregistration_delay.timeout_seconds=640",
        "healthcheck-path": "/",
        "success-codes": "401,404",
        "inbound-cidrs": "198.51.100.0/24,2001:db8::/32",
    }
    assert "tls" not in ingress.inputs["spec"]
    assert [each["path"] for each in ingress.inputs["spec"]["rules"][0]["http"]["paths"]] == ["/"]
    assert lent["gateway"].url == "https://llm.test"


def test_a_network_load_balancer_ends_tls_and_reaches_the_proxy_s_pods_without_node_ports():
    arn = ARN
    lent = {}
    nlb = {"certificateArn": arn, "scheme": "internet-facing", "inboundCidrs": ["198.51.100.0/24"]}
    recording = _declare(exposure="loadBalancer", tls=None, nlb=nlb, lent=lent)
    services = {each.name: each.inputs for each in recording.of_type("kubernetes:core/v1:Service")}
    assert services["gateway"]["spec"]["type"] == "ClusterIP"
    outward = services["gateway-nlb"]
    assert outward["spec"] == {
        "type": "LoadBalancer",
        "loadBalancerClass": "service.k8s.aws/nlb",
        "allocateLoadBalancerNodePorts": False,
        "loadBalancerSourceRanges": ["198.51.100.0/24"],
        "selector": dict(GATEWAY_PODS),
        "ports": [{"name": "https", "port": 443, "targetPort": "http", "protocol": "TCP"}],
    }
    prefix = "service.beta.kubernetes.io/aws-load-balancer-"
    annotations = outward["metadata"]["annotations"]
    assert {key.removeprefix(prefix): value for key, value in annotations.items() if key.startswith(prefix)} == {
        "scheme": "internet-facing",
        "nlb-target-type": "ip",
        "ssl-cert": arn,
        "ssl-ports": "443",
        "ssl-negotiation-policy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
        "backend-protocol": "tcp",
        "attributes": "load_balancing.cross_zone.enabled=true",
        "target-group-attributes": "deregistration_delay.timeout_seconds=750",
    }
    assert annotations["pulumi.com/skipAwait"] == "true"
    assert not recording.of_type("kubernetes:networking.k8s.io/v1:Ingress")
    # A TLS listener forgets a connection after 350 s of silence unless something probes it, and a model may be silent for longer.
    assert "listen 8080 so_keepalive=60s::;" in recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]["nginx.conf"]
    assert lent["gateway"].url == "https://llm.test"


def test_a_route_on_a_gateway_has_no_time_limit_of_its_own():
    parent = {"name": "public", "namespace": "gateways"}
    lent = {}
    recording = _declare(exposure="gatewayApi", tls=None, parent=parent, lent=lent)
    route = recording.one("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute").inputs["spec"]
    assert route["parentRefs"] == [parent]
    assert route["rules"][0]["timeouts"] == {"request": "0s"}
    assert not recording.of_type("kubernetes:networking.k8s.io/v1:Ingress")
    assert lent["gateway"].url == "https://llm.test"


def test_an_internal_gateway_has_no_way_in_from_outside():
    recording = _declare(exposure="internal", host=None, tls=None)
    assert not recording.of_type("kubernetes:networking.k8s.io/v1:Ingress")
    assert recording.one("kubernetes:core/v1:Service").inputs["spec"]["type"] == "ClusterIP"


def test_the_network_edges_are_clients_to_the_proxy_and_the_proxy_to_model_ports():
    policy = _declare(_endpoint("llama"), _endpoint("vision", Protocol(kind="kserve-v2-http", port=8010, path="/v2"))).one(
        "kubernetes:networking.k8s.io/v1:NetworkPolicy"
    )
    spec = policy.inputs["spec"]
    assert spec["podSelector"]["matchLabels"] == dict(GATEWAY_PODS)
    assert spec["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
    [edge] = spec["egress"]
    assert edge["to"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/component": "model"}}}]
    assert [each["port"] for each in edge["ports"]] == [8000, 8010]


def test_grpc_opens_a_port_a_path_and_an_edge_and_only_then():
    plain = _declare()
    assert [each["name"] for each in plain.one("kubernetes:core/v1:Service").inputs["spec"]["ports"]] == ["http"]
    spoken = _declare(_endpoint("vision", Protocol(kind="kserve-v2-grpc", port=8001, path="/")))
    assert [each["name"] for each in spoken.one("kubernetes:core/v1:Service").inputs["spec"]["ports"]] == ["http", "grpc"]
    paths = spoken.one("kubernetes:networking.k8s.io/v1:Ingress").inputs["spec"]["rules"][0]["http"]["paths"]
    assert [each["path"] for each in paths] == ["/", "/inference.GRPCInferenceService"]


def test_one_model_more_is_one_resource_more_here():
    assert len(_declare(_endpoint("a"), _endpoint("b"))) == len(_declare(_endpoint("a"))) + 1
