"""The gateway of a stack with scaled models: what it counts, and who may read the counts."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import ValidationError

from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.stackfile.reader import read_stack
from tests.unit.gateway.whole_stack import ROOT, recorded, refusals

MONITORING = {
    "prometheus": {"namespace": "monitoring", "url": "http://prometheus.monitoring.svc:9090"}
}
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"


@pytest.fixture(scope="module")
def stack():
    """The stack `local` with a model that can have no replica."""
    models = json.loads(
        read_stack(ROOT / "stacks" / "Pulumi.local.yaml").config["inferplan:models"]
    )
    models["llama-3-8b"]["replicas"] = {"min": 0, "max": 3}
    return recorded(models=models, monitoring=MONITORING)


def config_of(recording):
    [config] = [
        each.inputs["data"]
        for each in recording
        if each.type.endswith(":ConfigMap") and "nginx.conf" in each.inputs["data"]
    ]
    return config


def test_the_gateway_counts_the_requests_of_scaled_models_alone(stack):
    config = config_of(stack)
    assert 'default "llama-3-8b";' in config["nginx.conf"]
    assert "export default" in config["requests.js"]
    plain = config_of(recorded())
    assert set(plain) == {"nginx.conf", "prepare.sh", "gateway.js"}
    assert "js_" not in plain["nginx.conf"].replace("js_module", "")
    assert "load_module" not in plain["nginx.conf"]


def test_prometheus_alone_reaches_the_counts_of_the_gateway(stack):
    policy = stack.one(POLICY, "gateway-metrics").inputs["spec"]
    [edge] = policy["ingress"]
    [reader] = edge["from"]
    assert policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
    assert reader["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "monitoring"
    }
    assert [port["port"] for port in edge["ports"]] == [8081]
    assert not [each for each in recorded(monitoring=MONITORING) if each.name == "gateway-metrics"]


def test_a_wait_ends_before_proxies_close_the_connection():
    message = "startWaitSeconds (60) is greater than readTimeoutSeconds (30)"
    with pytest.raises(ValidationError, match=re.escape(message)):
        NginxGatewaySpec.model_validate(
            {"exposure": "internal", "startWaitSeconds": 60, "readTimeoutSeconds": 30}
        )
    written = {"exposure": "internal", "startWaitSeconds": 30, "readTimeoutSeconds": 30}
    assert NginxGatewaySpec.model_validate(written).start_wait_seconds == 30


def test_a_wait_of_more_than_a_minute_is_rejected():
    with pytest.raises(ValidationError, match="less than or equal to 60"):
        NginxGatewaySpec.model_validate({"exposure": "internal", "startWaitSeconds": 61})


def test_the_policy_pack_accepts_a_scaled_stack(stack):
    assert refusals(stack) == refusals(recorded())
