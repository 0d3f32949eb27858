"""Prices of the stack's region: a dated table, and no price is ever zero because it is unknown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from inferplan.capacity.budget import over_budget
from inferplan.capacity.cost import monthly_cost, region_of
from inferplan.capacity.declared import Declared
from inferplan.hardware.prices import price_list
from tests.unit.review.test_node_pools import node_group


def provider(region: str) -> Declared:
    return Declared(
        type="pulumi:providers:aws", urn="urn:aws", name="aws", inputs={"region": region}
    )


def cluster(version: str, support: str) -> Declared:
    inputs = {"version": version, "upgradePolicy": {"supportType": support}}
    return Declared(type="aws:eks/cluster:Cluster", urn="urn:c", name="c", inputs=inputs)


def resource(type_: str, name: str = "x", **inputs: Any) -> Declared:
    return Declared(type=type_, urn=f"urn:{name}", name=name, inputs=inputs)


@pytest.mark.parametrize(
    ("region", "kind", "hourly"),
    [
        ("us-east-1", "m7i.2xlarge", "0.4032"),
        ("eu-west-1", "m7i.2xlarge", "0.4494"),
        ("eu-central-1", "g6e.24xlarge", "18.83806"),
        ("ap-northeast-1", "g6e.16xlarge", "10.98917"),
        ("ca-central-1", "g6.48xlarge", "14.82346"),
        ("eu-west-2", "m7i.48xlarge", "11.1888"),
        ("ap-northeast-1", "p5.4xlarge", "8.6"),
        ("eu-central-1", "m6i.4xlarge", "0.92"),
        ("ap-south-1", "m6i.32xlarge", "6.464"),
        ("eu-west-2", "p5.48xlarge", "71.552"),
        ("us-west-1", "p5en.48xlarge", "79.12"),
        ("eu-central-1", "g5.24xlarge", "10.18405"),
        ("ap-southeast-1", "p4de.24xlarge", "32.93646"),
        ("us-west-1", "g4dn.metal", "9.389"),
        ("eu-west-3", "g4dn.metal", "9.148"),
    ],
)
def test_a_node_costs_what_its_region_asks(region, kind, hourly):
    """The figures are those of the source for other sizes than the table has."""
    (line,) = monthly_cost([provider(region), node_group(1, 1, instanceTypes=[kind])]).lines
    assert abs(line.usual / 730 - Decimal(hourly)) < Decimal(hourly) / 1000


@pytest.mark.parametrize(
    ("region", "kind"), [("eu-west-1", "p5.48xlarge"), ("mx-central-1", "m7i.2xlarge")]
)
def test_an_unknown_price_is_named_and_fails_the_budget(region, kind):
    cost = monthly_cost([provider(region), node_group(1, 2, instanceTypes=[kind])])
    assert cost.lines == ()
    assert [why for _, _, why in cost.unpriced] == [f"no list price for {kind} in {region}"]
    assert (
        f"cannot be checked against the budget of $900,000: no list price for {kind} in {region}"
        in over_budget(cost, Decimal(900_000))
    )


NAT = resource("aws:ec2/natGateway:NatGateway", "nat")


def test_a_service_without_a_price_in_the_region_is_named_and_counts_in_the_budget():
    cost = monthly_cost([provider("eu-west-1"), NAT, resource("aws:ec2/eip:Eip", "address")])
    assert [(line.name, line.usual, line.most) for line in cost.lines] == [
        ("address", Decimal("3.650"), Decimal("3.650")),
        ("nat", 0, Decimal("98.550")),
    ]
    assert ("NatGateway", "nat", "no list price for NatGateway in eu-west-1") in cost.unpriced
    assert "up to $102.20 a month" in over_budget(cost, Decimal(100))


@pytest.mark.parametrize(
    ("region", "usual", "most"),
    [
        ("us-east-1", "8.00", "8.00"),
        ("eu-central-1", "9.52", "9.52"),
        ("ca-central-1", "0", "24.00"),
    ],
)
def test_volumes_have_the_price_of_their_region_or_count_at_most(region, usual, most):
    cost = monthly_cost(
        [provider(region), resource("aws:ebs/volume:Volume", "v", size=100, type="gp3")]
    )
    assert (cost.usual, cost.most) == (Decimal(usual), Decimal(most))
    with_disk, without = (
        monthly_cost(
            [provider(region), node_group(1, 2, instanceTypes=["m7i.2xlarge"], diskSize=size)]
        )
        for size in (100, None)
    )
    assert (with_disk.usual - without.usual, with_disk.most - without.most) == (
        Decimal(usual),
        2 * Decimal(most),
    )


@pytest.mark.parametrize(
    ("version", "support", "usual", "most"),
    [("1.35", "STANDARD", 73, 73), ("1.32", "EXTENDED", 438, 438), ("1.35", "EXTENDED", 73, 438)],
)
def test_extended_support_is_in_the_sum_once_the_version_needs_it(version, support, usual, most):
    (line,) = monthly_cost([cluster(version, support)]).lines
    assert (line.usual, line.most) == (usual, most)
    assert ("in extended support from" in line.basis) == (support == "EXTENDED")
    assert bool(over_budget(monthly_cost([cluster(version, support)]), Decimal(100))) == (
        most > 100
    )


def test_backups_and_addresses_of_load_balancers_are_named():
    backup = resource("aws:efs/backupPolicy:BackupPolicy", "on", backupPolicy={"status": "ENABLED"})
    none = resource("aws:efs/backupPolicy:BackupPolicy", "off", backupPolicy={"status": "DISABLED"})
    balancer = resource("aws:lb/loadBalancer:LoadBalancer", "lb")
    unpriced = {name: why for _, name, why in monthly_cost([backup, none, balancer]).unpriced}
    assert "AWS Backup" in unpriced["on"]
    assert "off" not in unpriced
    assert "0.005 USD an hour for each public IPv4 address" in unpriced["lb"]


def test_the_region_is_that_of_the_provider_and_the_list_names_it():
    assert region_of([provider("eu-west-1")]) == "eu-west-1"
    assert region_of([]) == ""
    assert price_list("eu-west-1").place == " in eu-west-1"
