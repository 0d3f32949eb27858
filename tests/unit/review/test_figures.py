from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.capacity.budget import budget_of, over_budget, usd
from inferplan.capacity.capacity import pools
from inferplan.capacity.cost import monthly_cost
from inferplan.capacity.declared import Declared
from inferplan.hardware.prices import price_list
from inferplan.kube.pod_sets import accelerators_in
from inferplan.review.figures import figures_of
from inferplan.review.reading.declared import declared
from inferplan.review.rendering.markdown import render
from inferplan.review.report import make_report
from inferplan.review.rollout import rollouts, share_of
from tests.review_streams import document, facts, preview, step

GROUP = "aws:eks/nodeGroup:NodeGroup"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
HOURS = Decimal(730)


def group(least=1, wanted=2, most=6, machine="g6e.4xlarge", **more):
    sizes = {"minSize": least, "desiredSize": wanted, "maxSize": most}
    return {
        "instanceTypes": [machine],
        "scalingConfig": sizes,
        "labels": {"inferplan.dev/pool": "l40s"},
        **more,
    }


def resource(type_, name="x", **inputs):
    return Declared(
        type=type_, urn=f"urn:pulumi:dev::tiny::{type_}::{name}", name=name, inputs=inputs
    )


def node(pool="l40s", cards=4, memory="360Gi"):
    labels = {"inferplan.dev/pool": pool}
    return {
        "metadata": {"labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": str(cards), "memory": memory}},
    }


def model(
    replicas=2, cards=1, *, image="a", surge=0, unavailable=1, kind="RollingUpdate", pool="l40s"
):
    container = {
        "name": "server",
        "image": image,
        "resources": {"limits": {"nvidia.com/gpu": cards, "memory": "64Gi"}},
        "startupProbe": {"failureThreshold": 60, "periodSeconds": 10},
    }
    rolling = (
        {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        if kind == "RollingUpdate"
        else {}
    )
    template = {"spec": {"nodeSelector": {"inferplan.dev/pool": pool}, "containers": [container]}}
    return {
        "spec": {"replicas": replicas, "strategy": {"type": kind, **rolling}, "template": template}
    }


def test_a_node_group_costs_its_wanted_size_between_its_least_and_its_most():
    cost = monthly_cost([resource(GROUP, **group())])
    month = Decimal("3.00424") * HOURS
    assert (cost.least, cost.usual, cost.most) == tuple(
        (month * count).quantize(Decimal("0.01")) for count in (1, 2, 6)
    )


def test_spot_is_a_range_down_to_what_aws_promises_at_best():
    cost = monthly_cost([resource(GROUP, **group(capacityType="SPOT"))])
    month = Decimal("3.00424") * HOURS
    assert cost.least == (month * Decimal("0.10")).quantize(Decimal("0.01"))
    assert cost.most == (month * 6).quantize(Decimal("0.01"))


def test_clusters_nat_gateways_disks_and_load_balancers_are_in_the_sum():
    cost = monthly_cost(
        [
            resource("aws:eks/cluster:Cluster"),
            resource("aws:ec2/natGateway:NatGateway"),
            resource("aws:ebs/volume:Volume", size=100, type="gp3"),
            resource("kubernetes:core/v1:Service", spec={"type": "LoadBalancer"}),
            resource("kubernetes:core/v1:Service", "inner", spec={"type": "ClusterIP"}),
        ]
    )
    assert cost.usual == (
        (Decimal("0.10") + Decimal("0.045") + Decimal("0.0225")) * HOURS + Decimal(8)
    ).quantize(Decimal("0.01"))


@pytest.mark.parametrize(
    ("each", "why"),
    [
        (resource(GROUP, **group(machine="x9.huge")), "no list price for x9.huge"),
        (resource(GROUP, **group(machine="p5e.48xlarge")), "no list price for p5e.48xlarge"),
        (
            resource(GROUP, scalingConfig={"minSize": 1, "maxSize": 1}),
            "an instance type that the launch template names",
        ),
        (resource("aws:s3/bucket:Bucket"), "by use: 0.023 USD"),
        (resource("aws:efs/fileSystem:FileSystem"), "by use: 0.30 USD"),
        (resource("aws:ebs/volume:Volume", size={"computed": True}, type="gp3"), "unknown GiB"),
        (
            resource("pulumi:pulumi:Stack", **document(pool={"rack": {"adopted": True}})),
            "existing nodes",
        ),
    ],
)
def test_what_has_no_price_is_named_and_not_guessed(each, why):
    cost = monthly_cost([each])
    assert cost.usual == 0
    assert why in cost.unpriced[0][2]


def test_the_table_says_before_after_delta_date_and_what_is_missing():
    events = [
        step("update", GROUP, "l40s", group(1, 1, 2), group(2, 2, 4)),
        step("same", "aws:s3/bucket:Bucket", "weights", {}, {}),
    ]
    text = render(make_report([preview(*events)]))
    assert (
        "&#36;2,193 → &#36;4,386 | +&#36;2,193 | &#36;2,193 to &#36;4,386 → &#36;4,386 to"
        " &#36;8,772 |" in text
    )
    assert "List prices of 2026-07-20, us-east-1" in text
    assert "Not priced: Bucket weights" in text


def test_another_region_is_told_to_have_other_prices():
    events = [
        step(
            "same",
            "pulumi:providers:aws",
            "aws",
            {"region": "eu-central-1"},
            {"region": "eu-central-1"},
        ),
        step("create", GROUP, "g", None, group()),
    ]
    text = render(make_report([preview(*events)]))
    assert "List prices of 2026-07-20, eu-central-1" in text
    assert "by the ratio of one size per family" in text


@pytest.mark.parametrize(
    ("limit", "blocked"), [(13000, True), (13158, True), (13159, False), (20000, False)]
)
def test_a_budget_is_judged_by_the_most_that_pools_may_grow_to(limit, blocked):
    report = make_report(
        [
            preview(
                step("create", GROUP, "l40s", None, group()),
                config={"inferplan:budget": json.dumps({"monthlyUsd": limit})},
            )
        ]
    )
    assert report.verdict.startswith("blocked: over budget") is blocked
    if blocked:
        assert "lower its maximum size or raise budget.monthlyUsd" in render(report)


def test_a_budget_cannot_be_kept_by_machines_that_nobody_can_price():
    cost = monthly_cost([resource(GROUP, "odd", **group(machine="x9.huge"))])
    assert (
        "NodeGroup odd cannot be checked against the budget of $5,000: no list price for x9.huge"
        in over_budget(cost, Decimal(5000))
    )


def test_a_capacity_block_counts_whole_at_the_list_price_and_says_so():
    block = monthly_cost(
        [resource(GROUP, "block", **group(0, 0, 2, capacityType="CAPACITY_BLOCK"))]
    )
    month = (Decimal("3.00424") * HOURS * 2).quantize(Decimal("0.01"))
    assert (block.least, block.usual, block.most, block.committable) == (month, month, month, 0)
    assert "a capacity block, at the list price" in block.lines[0].basis
    assert "the most expensive is NodeGroup block" in over_budget(block, Decimal(1000))


def priced(resources):
    return monthly_cost(resources).usual / (Decimal("3.00424") * HOURS)


@pytest.mark.parametrize(
    ("replicas", "cards", "nodes"), [(0, 1, 1), (2, 1, 2), (5, 1, 5), (9, 1, 6)]
)
def test_a_pool_costs_the_nodes_that_its_declared_pods_need(replicas, cards, nodes):
    assert (
        round(
            priced(
                [
                    resource(GROUP, **group(1, 1, 6)),
                    resource(DEPLOYMENT, "m", **model(replicas, cards)),
                ]
            )
        )
        == nodes
    )


def test_pods_share_nodes_by_accelerators_and_memory():
    machine = group(0, 0, 9, machine="g6e.12xlarge")
    price = Decimal("10.49264") * HOURS

    def nodes(*models):
        declared_models = [
            resource(DEPLOYMENT, f"m{index}", **each) for index, each in enumerate(models)
        ]
        return round(monthly_cost([resource(GROUP, **machine), *declared_models]).usual / price)

    assert nodes(model(4, 1)) == 1
    assert nodes(model(2, 2), model(1, 4)) == 2
    assert nodes(model(3, 3)) == 3
    heavy = model(4, 1)
    heavy["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "200Gi"
    assert nodes(heavy) == 4


def test_more_replicas_cost_more_and_two_ways_of_buying_a_pool_do_not_double_it():
    groups = [
        resource(GROUP, name, **group(0, 0, 8, capacityType=way))
        for name, way in (("spot", "SPOT"), ("demand", "ON_DEMAND"))
    ]
    before, after = (
        monthly_cost([*groups, resource(DEPLOYMENT, "m", **model(count))]) for count in (2, 4)
    )
    month = Decimal("3.00424") * HOURS
    assert after.usual - before.usual == (2 * month).quantize(Decimal("0.01"))
    assert after.most == (8 * month).quantize(Decimal("0.01"))
    assert [(each.kind, each.name) for each in after.lines] == [("pool", "l40s")]
    assert pools([*groups])["l40s"].offered == 8


def test_declared_weights_are_priced_where_they_are_stored_and_reading_them_is_told():
    facts = {
        "weights": {"store": "weights", "path": "llama", "size": "100Gi"},
        "preheat": {"into": "shared"},
    }
    cost = monthly_cost(
        [
            resource("aws:efs/fileSystem:FileSystem", "shared"),
            resource("aws:s3/bucket:Bucket", "weights"),
            resource(
                "pulumi:pulumi:Stack",
                **document(model={"llama": facts, "again": {**facts, "preheat": {}}}),
            ),
        ]
    )
    gigabytes = Decimal(100 * 2**30) / 10**9
    lines = {each.name: each for each in cost.lines}
    assert lines["shared"].usual == gigabytes * Decimal("0.30")
    assert lines["shared"].most == 2 * lines["shared"].usual
    # The same path of a store is stored once, however many models serve it.
    assert lines["weights"].usual == gigabytes * Decimal("0.023")
    assert cost.notes == (
        (
            "For each start, not in the sum: each start of a replica of llama reads 107 GB from shared,"
            " 3.22 USD."
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "5000",
        "{",
        '{"monthlyUSD": 5}',
        '{"monthlyUsd": "much"}',
        '{"monthlyUsd": -1}',
        '{"monthlyUsd": NaN}',
    ],
)
def test_a_budget_that_cannot_be_read_blocks_with_the_way_to_write_it(text):
    report = make_report(
        [preview(step("create", GROUP, "l40s", None, group()), config={"inferplan:budget": text})]
    )
    assert report.verdict == "blocked: over budget"
    assert "Write it as {monthlyUsd: 5000}" in report.stacks[0].over_budget


def test_no_budget_and_an_empty_one_allow_everything():
    assert budget_of({}) is None
    assert budget_of({"inferplan:budget": "{}"}) is None
    assert over_budget(monthly_cost([resource(GROUP, **group())]), None) == ""


def test_the_price_list_has_a_price_or_a_stated_gap_for_each_machine():
    machines = price_list().machines
    assert len(machines) > 50
    assert [each.name for each in machines.values() if each.usd_per_hour is None] == [
        "p5e.48xlarge"
    ]


def test_pools_add_up_nodes_and_workloads():
    found = pools(
        [
            resource("kubernetes:core/v1:Node", "a", **node()),
            resource("kubernetes:core/v1:Node", "b", **node()),
            resource(DEPLOYMENT, "m", **model(replicas=3, cards=2)),
            resource(GROUP, **(group() | {"labels": {"inferplan.dev/pool": "cloud"}})),
        ]
    )
    assert (found["l40s"].nodes, found["l40s"].offered, found["l40s"].requested) == (2, 8, 6)
    assert (found["l40s"].memory_offered_gib, found["l40s"].memory_requested_gib) == (720, 192)
    assert (found["cloud"].nodes, found["cloud"].offered, found["cloud"].memory_offered_gib) == (
        6,
        6,
        768,
    )


def test_a_pool_of_existing_nodes_offers_what_its_facts_say():
    rack = {
        "adopted": True,
        "maxNodes": 2,
        "resource": "habana.ai/gaudi",
        "accelerators": 8,
        "memoryBytes": 512 * 2**30,
    }
    stated = document(pool={"rack": rack, "made": {**rack, "adopted": False}})
    found = pools([resource("pulumi:pulumi:Stack", **stated)])
    assert [*found] == ["rack"]
    assert (found["rack"].nodes, found["rack"].offered, found["rack"].resource) == (
        2,
        16,
        "habana.ai/gaudi",
    )
    assert found["rack"].memory_offered_gib == 1024


def test_leaders_and_workers_of_a_group_over_several_nodes_are_counted():
    template = model(cards=8)["spec"]["template"]
    spec = {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 3, "leaderTemplate": template, "workerTemplate": template},
    }
    kind = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    assert pools([resource(kind, "g", spec=spec)])["l40s"].requested == 2 * 3 * 8
    del spec["leaderWorkerTemplate"]["leaderTemplate"]
    assert pools([resource(kind, "g", spec=spec)])["l40s"].requested == 2 * 3 * 8


def test_worker_groups_of_custom_resources_are_counted():
    inner = model(cards=2)["spec"]["template"]
    spec = {
        "rayClusterConfig": {
            "headGroupSpec": {"template": {"spec": {"containers": [{"name": "h"}]}}},
            "workerGroupSpecs": [{"replicas": 3, "template": inner}],
        }
    }
    assert (
        pools([resource("kubernetes:ray.io/v1:RayService", "r", spec=spec)])["l40s"].requested == 6
    )


def test_asking_for_more_than_is_offered_is_marked():
    events = [
        step("same", "kubernetes:core/v1:Node", "a", node(), node()),
        step("create", DEPLOYMENT, "m", None, model(replicas=9)),
    ]
    assert "requests exceed capacity" in render(make_report([preview(*events)]))


def forecast(old, new, nodes=1, op="update"):
    shown = preview(
        step("same", "kubernetes:core/v1:Node", "a", node(cards=4 * nodes), node(cards=4 * nodes)),
        step(op, DEPLOYMENT, "m", old, new),
    )
    return rollouts(shown, pools(declared(shown, "after")))


def test_in_place_frees_before_it_asks():
    (each,) = forecast(model(replicas=4), model(replicas=4, image="b"))
    assert (each.manner, each.unavailable, each.minutes, each.extra, each.stuck) == (
        "in place",
        1,
        40,
        0,
        "",
    )


def test_surge_needs_free_accelerators():
    (each,) = forecast(
        model(replicas=2, surge=1, unavailable=0),
        model(replicas=2, surge=1, unavailable=0, image="b"),
    )
    assert (each.manner, each.unavailable, each.extra, each.stuck) == ("surge", 0, 1, "")


def test_surge_on_a_full_pool_is_stuck():
    old, new = (model(replicas=4, surge=1, unavailable=0, image=image) for image in "ab")
    (each,) = forecast(old, new)
    assert "needs 1 free nvidia.com/gpu on l40s, 0 are" in each.stuck
    report = make_report(
        [
            preview(
                step("same", "kubernetes:core/v1:Node", "a", node(), node()),
                step("update", DEPLOYMENT, "m", old, new),
            )
        ]
    )
    assert report.verdict.startswith("1 rollout will be stuck")


def test_claimed_devices_count_in_a_rollout():
    """A node of a DRA driver lists no accelerators: the stack states them."""
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": 2}
    devices = {"requests": [{"name": "cards", "exactly": exactly}]}
    template = {"metadata": {"name": "cards"}, "spec": {"spec": {"devices": devices}}}
    claims = [{"name": "cards", "resourceClaimTemplateName": "cards"}]
    sides = [model(replicas=2, surge=1, unavailable=0, image=image) for image in "ab"]
    for side in sides:
        pod: dict[str, Any] = side["spec"]["template"]["spec"]
        pod["resourceClaims"] = claims
        del pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    rack = {"resource": "gpu.nvidia.com", "accelerators": 4, "minNodes": 1, "maxNodes": 1}
    plain_node = node()
    del plain_node["status"]["allocatable"]["nvidia.com/gpu"]
    kind = "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"
    shown = preview(
        facts({"pool": {"l40s": rack}}, {"pool": {"l40s": rack}}),
        step("same", "kubernetes:core/v1:Node", "a", plain_node, plain_node),
        step("same", kind, "cards", template, template),
        step("update", DEPLOYMENT, "m", *sides),
    )
    after = pools(declared(shown, "after"))
    assert (after["l40s"].offered, after["l40s"].requested) == (4, 4)
    (each,) = rollouts(shown, after)
    assert (each.extra, each.resource) == (2, "gpu.nvidia.com")
    assert "needs 2 free gpu.nvidia.com on l40s, 0 are" in each.stuck


def test_recreate_and_replacement_stop_every_replica():
    for op, kind in (("update", "Recreate"), ("replace", "RollingUpdate")):
        (each,) = forecast(
            model(replicas=3, kind=kind), model(replicas=3, kind=kind, image="b"), op=op
        )
        assert (each.manner, each.unavailable, each.minutes) == ("recreate", 3, 10)


def test_scaling_alone_rolls_nothing():
    assert forecast(model(replicas=2), model(replicas=3)) == ()


@pytest.mark.parametrize(
    ("value", "replicas", "up", "count"),
    [
        ("25%", 3, True, 1),
        ("25%", 3, False, 0),
        ("50%", 3, False, 1),
        (2, 9, True, 2),
        (None, 4, True, 1),
    ],
)
def test_shares_are_rounded_as_kubernetes_rounds_them(value, replicas, up, count):
    assert share_of(value, replicas, up=up) == count


def test_figures_of_a_part_are_not_made():
    shown = preview(
        step("create", GROUP, "g", None, group()),
        maybeCorrupt=True,
        config={"inferplan:budget": '{"monthlyUsd": 1}'},
    )
    figures = figures_of(shown)
    assert figures.tables == ()
    assert figures.over_budget.startswith("not judged")


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "template",
                    "containers",
                    "replicas",
                    "resources",
                    "limits",
                    "nvidia.com/gpu",
                    "scalingConfig",
                    "labels",
                    "status",
                    "strategy",
                    "instanceTypes",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(
        [
            GROUP,
            DEPLOYMENT,
            "kubernetes:core/v1:Node",
            "aws:ebs/volume:Volume",
            "kubernetes:core/v1:Service",
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            [
                "spec",
                "status",
                "metadata",
                "scalingConfig",
                "instanceTypes",
                "labels",
                "size",
                "type",
            ]
        ),
        _JUNK,
        max_size=4,
    ),
)
def test_inputs_of_any_shape_are_told_or_left_out(type_, inputs):
    assert render(make_report([preview(step("update", type_, "x", {}, inputs))]))


def test_accelerators_of_a_map():
    assert accelerators_in({"cpu": "4", "habana.ai/gaudi": "8"}) == ("habana.ai/gaudi", 8)
    assert accelerators_in({"cpu": "4"}) == ("", 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", "$0.00"), ("12.346", "$12.35"), ("-2193.1", "-$2,193"), ("999.99", "$999.99")],
)
def test_dollars(value, text):
    assert usd(Decimal(value)) == text


def test_what_only_the_launch_template_says_is_read_from_it():
    block = [{"ebs": {"volumeSize": 40, "volumeType": "gp3"}}]
    tags = [{"resourceType": "instance", "tags": {"Name": "x", "inferplan.dev/pool": "l40s"}}]
    template = resource(
        "aws:ec2/launchTemplate:LaunchTemplate",
        "t",
        instanceType="p5.48xlarge",
        blockDeviceMappings=block,
        tagSpecifications=tags,
    )
    inputs = group(2, 2, 2) | {"instanceTypes": None}
    assert pools([template, resource(GROUP, **inputs)])["l40s"].offered == 16
    cost = monthly_cost([template, resource(GROUP, **inputs)])
    assert cost.usual == 2 * (Decimal("55.04") * HOURS + 40 * Decimal("0.08"))


def test_a_root_volume_without_a_price_is_named_beside_its_machines():
    block = [{"ebs": {"volumeSize": 40, "volumeType": "io2"}}]
    tags = [{"resourceType": "instance", "tags": {"inferplan.dev/pool": "l40s"}}]
    template = resource(
        "aws:ec2/launchTemplate:LaunchTemplate",
        "t",
        blockDeviceMappings=block,
        tagSpecifications=tags,
    )
    cost = monthly_cost([template, resource(GROUP, **group(1, 1, 1))])
    assert cost.usual == (Decimal("3.00424") * HOURS).quantize(Decimal("0.01"))
    assert cost.unpriced == (("NodeGroup", "x", "root volumes of 40 GiB io2"),)


def test_an_ingress_that_aws_makes_a_load_balancer_for_costs_one():
    way = "kubernetes:networking.k8s.io/v1:Ingress"
    cost = monthly_cost(
        [
            resource(way, spec={"ingressClassName": "alb"}),
            resource(way, "inner", spec={"ingressClassName": "nginx"}),
        ]
    )
    assert cost.usual == (Decimal("0.0225") * HOURS).quantize(Decimal("0.01"))


def test_several_instance_types_are_a_range():
    cost = monthly_cost(
        [resource(GROUP, **(group(1, 1, 1) | {"instanceTypes": ["g6e.4xlarge", "g6e.8xlarge"]}))]
    )
    assert (cost.usual, cost.most) == tuple(
        (Decimal(price) * HOURS).quantize(Decimal("0.01")) for price in ("3.00424", "4.52856")
    )
