"""Each way into a whole stack: what it registers beside the proxy, and that the policy pack lets it
pass.
"""

from __future__ import annotations

import pytest

from tests.unit.gateway.whole_stack import ROOT, recorded, refusals

ARN = "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d-0000-4000-8000-000000000000"
HOST = "llm.acme.example"
WAYS = {
    "ingress with an issuer": {
        "host": HOST,
        "tls": {"secretName": "llm-tls", "clusterIssuer": "acme"},
        "ingressClassName": "traefik",
    },
    "application load balancer": {
        "host": HOST,
        "ingressClassName": "alb",
        "alb": {"certificateArn": ARN},
    },
    "network load balancer": {
        "host": HOST,
        "exposure": "loadBalancer",
        "nlb": {"certificateArn": ARN},
    },
    "route on a gateway": {
        "host": HOST,
        "exposure": "gatewayApi",
        "parent": {"name": "public", "namespace": "gateways"},
    },
    "inside alone": {"exposure": "internal"},
}


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("way", WAYS)
def test_the_policy_pack_lets_each_way_in_pass(way):
    assert refusals(recorded(gateway=WAYS[way])) == []


def test_room_for_one_load_balancer_is_made_exactly_where_one_is_asked_for():
    def room(way):
        quotas = recorded(gateway=WAYS[way]).of_type("kubernetes:core/v1:ResourceQuota")
        return {each.inputs["spec"]["hard"]["services.loadbalancers"] for each in quotas}

    assert room("network load balancer") == {"1"}
    assert room("inside alone") == {"0"}


@pytest.mark.parametrize("way", WAYS)
def test_a_pod_waits_for_its_load_balancer_exactly_where_there_is_one(way):
    [namespace] = [
        each
        for each in recorded(gateway=WAYS[way]).of_type("kubernetes:core/v1:Namespace")
        if each.name == "inference"
    ]
    gates = namespace.inputs["metadata"]["labels"].get("elbv2.k8s.aws/pod-readiness-gate-inject")
    assert gates == ("enabled" if "load balancer" in way else None)


def test_a_load_balancer_that_goes_to_a_model_is_refused():
    recording = recorded(gateway=WAYS["network load balancer"])
    [outward] = [
        each
        for each in recording.of_type("kubernetes:core/v1:Service")
        if each.name == "gateway-nlb"
    ]
    outward.inputs["spec"]["selector"]["app.kubernetes.io/component"] = "model"
    assert [each for each in refusals(recording) if each.startswith("network-disallow-node-port")]
