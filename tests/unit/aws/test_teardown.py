"""The order of a teardown, and what outlives it."""

from __future__ import annotations

import pytest

from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.rig import BUCKET, CREATED, L40S, SYSTEM, declared, model, upstream

POOLS = {"l40s": L40S, "system": SYSTEM}
STORAGE = {"weights": {**BUCKET, "create": {}}, "shared": {"kind": "efs"}}
GATEWAY = {"host": "llm.example", "tls": {"secretName": "tls"}, "ingressClassName": "alb"}


@pytest.fixture(scope="module")
def created() -> Recording:
    models = {"llama": model(preheat={"into": "shared"}), "streamed": model()}
    return declared(
        cluster=CREATED, nodePools=POOLS, storage=STORAGE, models=models, gateway=GATEWAY
    )


def test_a_teardown_takes_models_and_gateway_before_nodes_and_nodes_before_the_network(created):
    groups = {each.urn for each in created.of_type("aws:eks/nodeGroup:NodeGroup")}
    network = {
        each.urn
        for kind in ("aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet")
        for each in created.of_type(kind)
        if "public" not in each.name
    }
    cluster = created.one("aws:eks/cluster:Cluster").urn
    inside = [each for each in created if each.type.startswith("kubernetes:")]
    assert len(inside) > 20
    for each in inside:
        assert groups <= upstream(created, each.urn), each.urn
    for group in groups:
        assert network | {cluster} <= upstream(created, group)


@pytest.mark.parametrize("nat", ["perZone", "single"])
def test_nodes_reach_aws_for_as_long_as_there_are_nodes(nat):
    """The controller that deletes load balancers is a pod on them: without a way to AWS its Ingress
    would never go.
    """
    made = declared(
        cluster={**CREATED, "create": {**CREATED["create"], "nat": nat}}, nodePools=POOLS
    )
    way = {
        each.urn
        for each in made
        if each.type.startswith("aws:ec2/") and each.name.startswith("prod-network")
    }
    # It opens nothing and no node is in it.
    way -= {each.urn for each in made.of_type("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")}
    assert len(way) > 12
    for group in made.of_type("aws:eks/nodeGroup:NodeGroup"):
        assert way <= upstream(made, group.urn), way - upstream(made, group.urn)


def test_a_nat_gateway_has_its_way_to_the_internet_before_it_starts(created):
    for each in created.of_type("aws:ec2/natGateway:NatGateway"):
        before = {urn.rpartition("$")[2].partition("::")[0] for urn in upstream(created, each.urn)}
        assert {
            "aws:ec2/internetGateway:InternetGateway",
            "aws:ec2/routeTableAssociation:RouteTableAssociation",
        } <= before


def test_administrators_keep_their_access_until_everything_inside_the_cluster_is_gone(created):
    access = {each.urn for kind in ("accessEntry:AccessEntry", "accessPolicyAssociation:AccessPolicyAssociation") for each in created.of_type(f"aws:eks/{kind}")}  # fmt: skip
    assert len(access) == 2
    for each in (each for each in created if each.type.startswith("kubernetes:")):
        assert access <= upstream(created, each.urn), each.urn


def test_a_teardown_takes_each_model_before_the_gateway_that_carries_its_answers(created):
    gateway = {
        each.urn
        for each in created
        if each.type in ("kubernetes:apps/v1:Deployment", "kubernetes:core/v1:Service")
        and each.name == "gateway"
    }
    servers = [
        each
        for each in created.of_type("kubernetes:apps/v1:Deployment")
        if each.name in ("llama", "streamed")
    ]
    assert len(gateway) == len(servers) == 2
    for each in servers:
        assert gateway <= upstream(created, each.urn), each.urn
    # The other way round as well, or a destroy would wait for itself.
    for urn in gateway:
        assert not {each.urn for each in servers} & upstream(created, urn)


def test_nothing_that_a_controller_cleans_up_outlives_the_nodes_that_the_controller_runs_on(
    created,
):
    groups = {each.urn for each in created.of_type("aws:eks/nodeGroup:NodeGroup")}
    for kind in (
        "kubernetes:networking.k8s.io/v1:Ingress",
        "kubernetes:core/v1:PersistentVolumeClaim",
        "kubernetes:core/v1:PersistentVolume",
    ):
        found = created.of_type(kind)
        assert found
        assert all(groups <= upstream(created, each.urn) for each in found)


def test_a_load_balancer_of_a_service_is_gone_before_the_nodes_are():
    nlb = {
        "certificateArn": (
            "arn:aws:acm:us-east-1:111122223333:certificate/3f1d9f5e-2c1b-4e0a-9a43-7d0e5b6c8a21"
        )
    }
    gateway = {"host": "llm.example", "exposure": "loadBalancer", "nlb": nlb}
    made = declared(
        cluster=CREATED,
        nodePools=POOLS,
        storage=STORAGE,
        models={"llama": model()},
        gateway=gateway,
    )
    groups = {each.urn for each in made.of_type("aws:eks/nodeGroup:NodeGroup")}
    balanced = [
        each
        for each in made.of_type("kubernetes:core/v1:Service")
        if each.inputs["spec"].get("type") != "ClusterIP"
    ]
    assert [each.inputs["spec"]["type"] for each in balanced] == ["LoadBalancer"]
    [namespace] = [
        each
        for each in made.of_type("kubernetes:core/v1:Namespace")
        if each.inputs["metadata"]["name"] == "inference"
    ]
    # A Service is not waited for; its namespace is, and it ends only once the controller has let
    # the Service go.
    assert namespace.urn in upstream(made, balanced[0].urn)
    assert groups <= upstream(made, namespace.urn)


def test_claims_go_before_mount_targets_so_that_no_unmount_waits_for_a_server_that_is_gone(created):
    targets = {each.urn for each in created.of_type("aws:efs/mountTarget:MountTarget")}
    claim = created.one("kubernetes:core/v1:PersistentVolumeClaim")
    assert len(targets) == 2
    assert targets <= upstream(created, claim.urn)
    job = created.one("kubernetes:batch/v1:Job")
    assert claim.urn in upstream(created, job.urn)


@pytest.mark.parametrize("retain", [True, False])
def test_stores_outlive_the_stack_with_their_walls_unless_told_otherwise(retain):
    storage = {
        "weights": {**BUCKET, "create": {"retain": retain}},
        "shared": {"kind": "efs", "retain": retain},
    }
    recording = declared(cluster=CREATED, nodePools=POOLS, storage=storage)
    named = [
        each
        for each in recording
        if each.name in ("weights", "shared") and each.custom and each.type.startswith("aws:")
    ]
    assert len(named) == 11, "a bucket with key and five settings, a file system with three"
    assert {
        (each.options.protect or False, each.options.retain_on_delete or False) for each in named
    } == {(retain, retain)}
    # Others may have objects in a namespace: inferplan deletes it when it is empty.
    others = [
        each.urn
        for each in recording
        if each not in named
        and each.options.retain_on_delete
        and not each.type.endswith(":Namespace")
    ]
    assert others == []


def test_what_is_kept_needs_nothing_that_goes(created):
    """`--exclude-protected` keeps what a protected resource depends on as well: no network may hang
    on a bucket.
    """
    protected = [each for each in created if each.options.protect and each.options.retain_on_delete]
    before = set().union(*(upstream(created, each.urn) for each in protected))
    kinds = {
        each.type
        for each in created
        if each.urn in before and each.custom and each not in protected
    }
    assert kinds == {"pulumi:providers:aws"}


@pytest.mark.parametrize("protect", [True, False])
def test_a_created_cluster_and_its_key_are_protected_unless_told_otherwise(protect):
    recording = declared(
        cluster={**CREATED, "create": {**CREATED["create"], "protect": protect}}, nodePools=POOLS
    )
    guarded = [each.type for each in recording if each.options.protect]
    assert sorted(guarded) == (["aws:eks/cluster:Cluster", "aws:kms/key:Key"] if protect else [])
    assert not any(
        each.options.retain_on_delete for each in recording if not each.type.endswith(":Namespace")
    ), "nobody pays for a cluster that no state knows of"
