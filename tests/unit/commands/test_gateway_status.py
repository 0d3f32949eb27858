"""The line of `inferplan status` about a gateway that nothing serves."""

from __future__ import annotations

from typing import Any

import pytest

from inferplan.status.differences import gateway_problems
from inferplan.workspace.live import LiveCluster
from tests.unit.aws.rig import settings
from tests.unit.test_capacity_notes import ALB, DEFAULT_CLASS, GATEWAY_API, NGINX, NLB

PATHS = {
    "Ingress": ("/apis/networking.k8s.io/v1", "ingresses", True),
    "IngressClass": ("/apis/networking.k8s.io/v1", "ingressclasses", False),
    "Service": ("/api/v1", "services", True),
    "Gateway": ("/apis/gateway.networking.k8s.io/v1", "gateways", True),
}
WAITING: dict[str, Any] = {
    "Ingress": [("inference", "gateway", {})],
    "Service": [("inference", "gateway-nlb", {})],
}
ADDRESS = {"loadBalancer": {"ingress": [{"hostname": "a.elb.example"}]}}
SERVED: dict[str, Any] = {
    "Ingress": [("inference", "gateway", ADDRESS)],
    "Service": [("inference", "gateway-nlb", ADDRESS)],
}


def cluster(objects: dict[str, list[tuple[str, str, dict[str, Any]]]]) -> LiveCluster:
    def get(path: str) -> dict[str, Any]:
        if path == "/apis":
            groups = {
                base.removeprefix("/apis/")
                for base, *_ in PATHS.values()
                if base.startswith("/apis/")
            }
            return {"groups": [{"versions": [{"groupVersion": each}]} for each in sorted(groups)]}
        kinds = [
            {"kind": kind, "name": plural, "namespaced": namespaced}
            for kind, (base, plural, namespaced) in PATHS.items()
            if base == path
        ]
        if kinds:
            return {"resources": kinds}
        kind = next(kind for kind, (_, plural, _) in PATHS.items() if path.endswith(f"/{plural}"))
        items = [
            {
                "metadata": {"name": name, **({"namespace": space} if space else {})},
                "status": status,
            }
            for space, name, status in objects.get(kind, [])
        ]
        return {"items": items}

    return LiveCluster(get)


@pytest.mark.parametrize(
    ("gateway", "objects", "expected"),
    [
        (
            NGINX,
            WAITING,
            (
                "Ingress inference/gateway has no address: the cluster has no IngressClass nginx."
                " Install its controller"
            ),
        ),
        (NGINX, {**WAITING, "IngressClass": [("", "traefik", {})]}, "Existing classes: traefik."),
        (
            NGINX,
            {**WAITING, "IngressClass": [("", "nginx", {})]},
            "it waits for the ingress controller for class nginx",
        ),
        (DEFAULT_CLASS, WAITING, "the cluster has no default IngressClass"),
        (
            ALB,
            {**WAITING, "IngressClass": [("", "alb", {})]},
            "it waits for the AWS Load Balancer Controller",
        ),
        (
            NLB,
            WAITING,
            (
                "Service inference/gateway-nlb has no address: it waits for the AWS Load Balancer"
                " Controller"
            ),
        ),
        (GATEWAY_API, {}, "Gateway edge-system/edge does not exist. Create it"),
        (
            GATEWAY_API,
            {"Gateway": [("edge-system", "edge", {})]},
            "Gateway edge-system/edge has no address",
        ),
        (
            GATEWAY_API,
            {"Gateway": [("edge-system", "edge", {"addresses": [{"value": "192.0.2.1"}]})]},
            None,
        ),
        (NGINX, SERVED, None),
        (NLB, SERVED, None),
        (NGINX, {}, None),
        ({"exposure": "internal"}, WAITING, None),
    ],
)
def test_a_gateway_without_an_address_is_named_with_the_cause_and_the_remedy(
    gateway, objects, expected
):
    problems = list(gateway_problems(settings(gateway=gateway), cluster(objects)))
    assert len(problems) == (expected is not None)
    assert not problems or expected in problems[0]


def test_a_rehearsal_asks_for_no_controller_of_its_simulated_cluster():
    assert not list(gateway_problems(settings(gateway=NGINX), cluster(WAITING), rehearsed=True))
