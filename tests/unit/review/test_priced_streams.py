"""A bill that is read from the engine's stream is the bill of the resources themselves: nothing
that has a price is dropped while the stream is read.
"""

import datetime as dt
from decimal import Decimal

import pytest

from inferplan.capacity import cost
from inferplan.capacity.cost import monthly_cost
from inferplan.capacity.declared import Declared
from inferplan.hardware.prices import price_list
from inferplan.kube.facts import VERSION
from inferplan.pulumi_engine.reading.events import STACK_TYPE
from inferplan.review.figures import figures_of
from inferplan.review.reading.declared import declared
from inferplan.review.rendering.markdown import render
from inferplan.review.report import make_report
from tests.review_streams import preview, stack_step, step
from tests.unit.review.test_figures import GROUP, group, resource

CLUSTER = "aws:eks/cluster:Cluster"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
POOL_TAG = [{"resourceType": "instance", "tags": {"inferplan.dev/pool": "l40s"}}]
RESOURCES = [
    resource("pulumi:providers:aws", "aws", region="us-east-1"),
    resource(CLUSTER, "eks", version="1.33", upgradePolicy={"supportType": "EXTENDED"}),
    resource("aws:ec2/natGateway:NatGateway", "nat", subnetId="subnet-1"),
    resource("aws:ec2/eip:Eip", "ip", domain="vpc"),
    resource("aws:lb/loadBalancer:LoadBalancer", "lb", loadBalancerType="application"),
    resource("aws:kms/key:Key", "key", description="secrets"),
    resource("aws:ebs/volume:Volume", "disk", size=200, type="gp3"),
    resource("aws:efs/fileSystem:FileSystem", "shared", encrypted=True),
    resource("aws:efs/backupPolicy:BackupPolicy", "on", backupPolicy={"status": "ENABLED"}),
    resource("aws:s3/bucket:Bucket", "weights", bucket="acme-weights"),
    resource("aws:cloudwatch/logGroup:LogGroup", "logs", retentionInDays=90),
    resource(
        TEMPLATE,
        "l40s",
        blockDeviceMappings=[{"ebs": {"volumeSize": 300, "volumeType": "gp3"}}],
        tagSpecifications=POOL_TAG,
    ),
    resource(GROUP, "l40s", **group(1, 2, 6)),
    resource("kubernetes:core/v1:Service", "gateway", spec={"type": "LoadBalancer"}),
    resource(
        "kubernetes:networking.k8s.io/v1:Ingress", "gateway", spec={"ingressClassName": "alb"}
    ),
]


def read(resources, op="create", **options):
    events = [
        step(op, each.type, each.name, None if op == "create" else each.inputs, each.inputs)
        for each in resources
    ]
    return preview(stack_step(), *events, **options)


@pytest.mark.parametrize("op", ["create", "same"])
def test_every_line_of_the_bill_survives_the_engines_stream(op):
    direct = monthly_cost(RESOURCES)
    streamed = monthly_cost(declared(read(RESOURCES, op), "after"))
    assert streamed.lines == direct.lines
    assert streamed.unpriced == direct.unpriced
    assert (streamed.usual, streamed.least, streamed.most) == (
        direct.usual,
        direct.least,
        direct.most,
    )


def test_the_resources_have_every_price_of_the_list():
    prices = price_list()
    types = {each.type for each in RESOURCES}
    keys = {*prices.per_hour, *prices.per_month, *prices.by_use}
    assert {
        key.partition("/extended")[0].removesuffix("/LoadBalancer").removesuffix("/alb")
        for key in keys
    } - types <= {"aws:s3/bucketV2:BucketV2"}


@pytest.mark.parametrize(("day", "usual"), [((2026, 7, 28), 73), ((2026, 7, 29), 438)])
def test_support_is_that_of_the_day_of_the_report(monkeypatch, day, usual):
    monkeypatch.setattr(cost, "today", lambda: dt.date(*day))
    figures = figures_of(read([RESOURCES[1]]))
    assert figures.cost.startswith(f"$0.00 → ${usual}.00")
    assert "at most $0.00 → $438.00" in figures.cost


def test_a_pool_without_a_price_is_in_the_headline_and_in_the_sum():
    pools = [
        resource("pulumi:providers:aws", "aws", region="eu-south-2"),
        resource(GROUP, "p5", **group(1, 2, 6, "p5.48xlarge", labels={"inferplan.dev/pool": "p5"})),
        resource("aws:ec2/eip:Eip", "ip", domain="vpc"),
    ]
    run = read(pools)
    figures = figures_of(run)
    assert figures.cost_change.endswith("and an unknown sum for p5")
    assert "an unknown sum for p5" in figures.cost
    assert "unknown sum for p5 a month" in render(make_report([run])).splitlines()[1]


def test_what_no_list_has_is_named():
    (note,) = [
        note
        for table in figures_of(read(RESOURCES)).tables
        for note in table.notes
        if note.startswith("Not priced")
    ]
    for each in ("between zones", "ECR", "GuardDuty"):
        assert each in note
    assert Decimal(0) < monthly_cost(RESOURCES).least


def priced_pool(ways: list[str], **paid: float) -> list[Declared]:
    """A pool of 2 nodes of p5.48xlarge, with the prices of the stack file as facts."""
    facts = {"version": VERSION, "pool": {"p5": {"provider": "eks", **paid}}}
    labels = {"inferplan.dev/pool": "p5"}
    groups = [
        resource(
            GROUP, f"p5-{way}", capacityType=way, **group(2, 2, 2, "p5.48xlarge", labels=labels)
        )
        for way in ways
    ]
    stack = Declared(type=STACK_TYPE, urn="", name="test", inputs={"facts": facts})
    return [resource("pulumi:providers:aws", "aws", region="us-east-1"), *groups, stack]


@pytest.mark.parametrize(
    ("ways", "paid", "usual", "text"),
    [
        (["CAPACITY_BLOCK"], {"usdPerHour": 31.5}, 2 * 730 * 31.5, "31.5 USD an hour, as the stack file says"),
        (["ON_DEMAND"], {"usdPerHour": 40}, 2 * 730 * 40, "as the stack file says"),
        (["SPOT"], {"spotUsdPerHour": 12}, 2 * 730 * 12, "Spot at 12 USD, as the stack file says"),
    ],
)  # fmt: skip
def test_a_price_that_the_user_pays_is_that_of_the_bill(ways, paid, usual, text):
    cost = monthly_cost(priced_pool(ways, **paid))
    [line] = [each for each in cost.lines if "p5.48xlarge" in each.basis]
    assert float(line.usual) == pytest.approx(usual, rel=0.01)
    assert text in line.basis
    assert line.committable == 0
    [listed] = [
        each for each in monthly_cost(priced_pool(ways)).lines if "p5.48xlarge" in each.basis
    ]
    assert listed.usual != line.usual
