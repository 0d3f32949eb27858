"""The ways in, and what each asks of the proxy's pods behind it."""

from __future__ import annotations

import pytest

from inferplan.components.gateway.gateway import GATEWAY_PODS
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import EndpointProtocol
from tests.unit.gateway.declared import OPENAI, declare, endpoint, pod_of

INGRESS = "kubernetes:networking.k8s.io/v1:Ingress"
ARN = "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d-0000-4000-8000-000000000000"
BALANCED = {
    "alb": {"tls": None, "ingressClassName": "alb", "alb": {"certificateArn": ARN}},
    "nlb": {"exposure": "loadBalancer", "tls": None, "nlb": {"certificateArn": ARN}},
}


@pytest.mark.parametrize("drain", [1, 600, 7200])
def test_the_pod_s_grace_covers_the_hook_and_the_drain(drain):
    recording = declare(drainSeconds=drain)
    hook = pod_of(recording)["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][2]
    assert hook == "sleep 10"
    assert pod_of(recording)["spec"]["terminationGracePeriodSeconds"] >= 10 + drain + 5
    assert (
        f"worker_shutdown_timeout {drain}s;"
        in recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]["nginx.conf"]
    )


@pytest.mark.parametrize(("which", "seconds"), [("alb", 40), ("nlb", 150)])
def test_a_pod_behind_a_load_balancer_of_aws_takes_calls_until_that_has_learned_of_it_and_is_not_cut_before_its_drain(
    which, seconds
):
    recording = declare(**BALANCED[which], drainSeconds=1000)
    pod = pod_of(recording)["spec"]
    hook = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert hook == ["sh", "-c", f"sleep {seconds}"]
    assert pod["terminationGracePeriodSeconds"] > seconds + 1000
    notes = [each.inputs.get("metadata", {}).get("annotations", {}) for each in recording]
    assert f"deregistration_delay.timeout_seconds={seconds + 1000}" in [
        value for each in notes for value in each.values()
    ]


@pytest.mark.parametrize("read", [1, 2000, 3990])
def test_the_proxy_keeps_idle_connections_for_longer_than_what_stands_in_front_of_it(read):
    recording = declare(**BALANCED["alb"], readTimeoutSeconds=read)
    told = recording.one("kubernetes:networking.k8s.io/v1:Ingress").inputs["metadata"][
        "annotations"
    ]
    idle = int(told["alb.ingress.kubernetes.io/load-balancer-attributes"].rpartition("=")[2])
    text = recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]["nginx.conf"]
    assert int(text.partition("keepalive_timeout ")[2].partition("s;")[0]) > max(idle, 3600)


def test_the_ingress_carries_the_class_the_host_and_the_certificate_that_the_user_names():
    ingress = declare(
        ingressClassName="traefik", tls={"secretName": "llm-tls", "clusterIssuer": "acme"}
    ).one("kubernetes:networking.k8s.io/v1:Ingress")
    assert ingress.inputs["spec"]["ingressClassName"] == "traefik"
    assert ingress.inputs["spec"]["tls"] == [{"hosts": ["llm.test"], "secretName": "llm-tls"}]
    assert [rule["host"] for rule in ingress.inputs["spec"]["rules"]] == ["llm.test"]
    annotations = ingress.inputs["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/cluster-issuer": "acme", "pulumi.com/skipAwait": "true"}


def test_a_load_balancer_of_aws_listens_on_tls_alone_and_waits_longer_than_the_proxy():
    arn = ARN
    alb = {
        "certificateArn": arn,
        "scheme": "internet-facing",
        "inboundCidrs": ["198.51.100.0/24", "2001:db8::/32"],
    }
    lent = {}
    spoken = EndpointProtocol(kind="kserve-v2-grpc", port=8001, path="/")
    ingress = declare(
        endpoint("llama", OPENAI, spoken), tls=None, ingressClassName="alb", alb=alb, lent=lent
    ).one("kubernetes:networking.k8s.io/v1:Ingress")
    annotations = ingress.inputs["metadata"]["annotations"]
    said = {
        key.partition("/")[2]: value
        for key, value in annotations.items()
        if key.startswith("alb.ingress.kubernetes.io/")
    }
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
    recording = declare(exposure="loadBalancer", tls=None, nlb=nlb, lent=lent)
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
    assert {
        key.removeprefix(prefix): value
        for key, value in annotations.items()
        if key.startswith(prefix)
    } == {
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
    # A TLS listener forgets a connection after 350 s of silence unless something probes it, and a
    # model may be silent for longer.
    assert (
        "listen 8080 so_keepalive=60s::;"
        in recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]["nginx.conf"]
    )
    assert lent["gateway"].url == "https://llm.test"


def test_a_route_on_a_gateway_has_no_time_limit_of_its_own():
    parent = {"name": "public", "namespace": "gateways"}
    lent = {}
    recording = declare(exposure="gatewayApi", tls=None, parent=parent, lent=lent)
    route = recording.one("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute").inputs["spec"]
    assert route["parentRefs"] == [parent]
    assert route["rules"][0]["timeouts"] == {"request": "0s"}
    assert not recording.of_type("kubernetes:networking.k8s.io/v1:Ingress")
    assert lent["gateway"].url == "https://llm.test"


def test_an_internal_gateway_has_no_way_in_from_outside():
    recording = declare(exposure="internal", host=None, tls=None)
    assert not recording.of_type("kubernetes:networking.k8s.io/v1:Ingress")
    assert recording.one("kubernetes:core/v1:Service").inputs["spec"]["type"] == "ClusterIP"


def test_grpc_opens_a_port_a_path_and_an_edge_and_only_then():
    plain = declare()
    assert [
        each["name"] for each in plain.one("kubernetes:core/v1:Service").inputs["spec"]["ports"]
    ] == ["http"]
    spoken = declare(
        endpoint("vision", EndpointProtocol(kind="kserve-v2-grpc", port=8001, path="/"))
    )
    assert [
        each["name"] for each in spoken.one("kubernetes:core/v1:Service").inputs["spec"]["ports"]
    ] == ["http", "grpc"]
    paths = spoken.one("kubernetes:networking.k8s.io/v1:Ingress").inputs["spec"]["rules"][0][
        "http"
    ]["paths"]
    assert [each["path"] for each in paths] == ["/", "/inference.GRPCInferenceService"]


def test_ingress_nginx_gets_the_limits_of_the_gateway_and_other_classes_a_note():
    written = {"readTimeoutSeconds": 1500, "maxBodySize": "32Mi"}
    [ingress] = declare(ingressClassName="nginx", **written).of_type(INGRESS)
    annotations = ingress.inputs["metadata"]["annotations"]
    prefix = "nginx.ingress.kubernetes.io/proxy-"
    assert {
        key.removeprefix(prefix): value for key, value in annotations.items() if prefix in key
    } == {
        "read-timeout": "1500",
        "send-timeout": "1500",
        "body-size": str(32 * 2**20),
        "buffering": "off",
        "request-buffering": "off",
    }
    tls = {"host": "llm.test", "tls": {"secretName": "llm-tls"}}
    assert NginxGatewaySpec.model_validate({**tls, "ingressClassName": "nginx"}).differences == ()
    for name in (None, "traefik", "haproxy"):
        spec = NginxGatewaySpec.model_validate({**tls, **written, "ingressClassName": name})
        [note] = spec.differences
        assert all(text in note for text in (spec.access.entry_point, "1500 s", "32Mi"))
        [ingress] = declare(ingressClassName=name, **written).of_type(INGRESS)
        assert list(ingress.inputs["metadata"]["annotations"]) == ["pulumi.com/skipAwait"]
    alb = NginxGatewaySpec.model_validate({"host": "llm.test", **BALANCED["alb"]})
    assert alb.differences == ()
