"""What a model's egress becomes: rules of its NetworkPolicy, and the variables of a proxy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.serving.models import container_of, declared, vllm
from tests.unit.serving.test_ray_serve import ray

EGRESS: dict[str, Any] = {
    "to": [
        {"host": "milvus.db.svc", "ports": [19530, 9091]},
        {"host": "billing.acme.example", "cidrs": ["10.30.8.0/24", "10.30.9.0/24"], "ports": [443]},
        {"cidrs": ["0.0.0.0/0"], "ports": [8443]},
    ],
    "proxy": {
        "url": "http://squid.acme.example:3128",
        "cidrs": ["10.20.0.9/32"],
        "noProxy": ["mirror.acme.example"],
    },
}
RULES = [
    ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "db"}}}, [19530, 9091]),
    ([{"ipBlock": {"cidr": "10.30.8.0/24"}}, {"ipBlock": {"cidr": "10.30.9.0/24"}}], [443]),
    ({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}, [8443]),
    ({"ipBlock": {"cidr": "10.20.0.9/32"}}, [3128]),
]


@pytest.mark.parametrize(
    "spec", [vllm(egress=EGRESS), ray(egress=EGRESS)], ids=["vllm", "ray-serve"]
)
def test_each_server_is_a_rule_of_the_models_policy(spec):
    policy = declared(spec).one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    rules = [
        {
            "to": to if isinstance(to, list) else [to],
            "ports": [{"port": port, "protocol": "TCP"} for port in ports],
        }
        for to, ports in RULES
    ]
    assert policy["egress"][-4:] == rules
    assert "Egress" in policy["policyTypes"]


def test_a_model_without_egress_has_no_rule():
    assert declared(vllm()).one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"][
        "policyTypes"
    ] == ["Ingress"]


def test_a_proxy_sets_the_variables_in_both_cases_and_leaves_named_hosts_out():
    values = {each["name"]: each.get("value") for each in container_of(vllm(egress=EGRESS))["env"]}
    proxies = {name: value for name, value in values.items() if name.lower().endswith("_proxy")}
    direct = "localhost,127.0.0.1,.svc,.cluster.local,milvus.db.svc,billing.acme.example,mirror.acme.example"
    url = "http://squid.acme.example:3128"
    assert proxies == {
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), url),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }
