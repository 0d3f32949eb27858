"""Capacity and cost of pools in EKS Auto Mode: as of a node group, and the fee on top."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from inferplan.capacity.capacity import pools
from inferplan.capacity.cost import monthly_cost
from inferplan.capacity.declared import NODE_GROUP, Declared
from inferplan.hardware.prices import price_list
from inferplan.review.steps.kinds import rules_for

POOL = "inferplan.dev/pool"


def declared(type_: str, name: str, spec: dict[str, Any]) -> Declared:
    return Declared(
        type=type_, urn=f"urn:{name}", name=name, inputs={"metadata": {"name": name}, "spec": spec}
    )


def node_pool(
    name: str, *, ways: tuple[str, ...] = ("on-demand",), machine: str = "g6e.4xlarge", **spec: Any
) -> Declared:
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [machine]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(ways)},
    ]
    template = {
        "metadata": {"labels": {POOL: "l40s"}},
        "spec": {"nodeClassRef": {"name": "l40s-auto"}, "requirements": requirements},
    }
    return declared("kubernetes:karpenter.sh/v1:NodePool", name, {**spec, "template": template})


def node_group(least: int, most: int, **inputs: Any) -> Declared:
    sizes = {"scalingConfig": {"minSize": least, "maxSize": most}, "labels": {POOL: "l40s"}}
    return Declared(
        type=NODE_GROUP,
        urn="urn:g",
        name="g",
        inputs={"instanceTypes": ["g6e.4xlarge"], **sizes, **inputs},
    )


STATIC = node_pool("l40s-static", replicas=2, limits={"nodes": "3"})
DYNAMIC = node_pool(
    "l40s-auto", ways=("spot", "on-demand"), limits={"nodes": "3", "nvidia.com/gpu": "3"}
)
CLASS = declared(
    "kubernetes:eks.amazonaws.com/v1:NodeClass",
    "l40s-auto",
    {"ephemeralStorage": {"size": "100Gi"}},
)


def test_a_static_and_a_dynamic_node_pool_are_one_pool():
    (pool,) = pools([STATIC, DYNAMIC, CLASS]).values()
    assert (pool.pool, pool.nodes, pool.offered, pool.resource) == ("l40s", 5, 5, "nvidia.com/gpu")


def test_the_cost_is_that_of_a_node_group_and_the_fee():
    (line,) = monthly_cost([STATIC, node_pool("l40s-auto", limits={"nodes": "3"}), CLASS]).lines
    (group,) = monthly_cost([node_group(2, 5, diskSize=100, diskType="gp3")]).lines
    prices = price_list()
    price = prices.machines["g6e.4xlarge"].usd_per_hour
    assert price is not None
    fee = price * prices.hours * prices.auto_mode["accelerated"]
    assert (line.usual, line.most) == (group.usual + 2 * fee, group.most + 5 * fee)
    assert line.committable == group.committable
    assert line.basis.endswith("with about 7.8% for EKS Auto Mode")


def test_spot_does_not_lower_the_fee():
    (line,) = monthly_cost([node_pool("l40s-auto", ways=("spot",), limits={"nodes": "2"})]).lines
    (static,) = monthly_cost(
        [node_pool("l40s-static", ways=("spot",), replicas=2, limits={"nodes": "3"})]
    ).lines
    prices = price_list()
    price = prices.machines["g6e.4xlarge"].usd_per_hour
    assert price is not None
    assert line.least == 0
    assert static.least == 2 * price * prices.hours * (prices.spot_lowest + Decimal("0.078"))


def test_a_node_pool_without_a_limit_of_nodes_has_no_price():
    cost = monthly_cost([node_pool("open", limits={"cpu": "1000"}), CLASS])
    assert cost.lines == ()
    assert [why for _, _, why in cost.unpriced if why.startswith("no list price")]


def test_a_change_of_its_nodes_is_a_risk_and_a_change_of_its_size_is_none():
    (rule,) = [
        each
        for each in rules_for("kubernetes:karpenter.sh/v1:NodePool")
        if each.path.pattern.startswith(r"spec\.template\.")
        and not each.rest
        and each.order == 2000
    ]
    assert rule.path.fullmatch("spec.template.spec.taints[0].key")
    assert not rule.path.fullmatch("spec.limits.nodes")
