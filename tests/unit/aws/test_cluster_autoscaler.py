"""The Cluster Autoscaler of a cluster with node groups: what it may do, in which order it adds
nodes, and when it is installed.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from inferplan.components.platforms.aws.aws_api import NEWEST_KUBERNETES, OLDEST_KUBERNETES
from inferplan.components.platforms.aws.cluster_autoscaler import image_of
from inferplan.images.catalogue import facts_of
from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.evaluator import Request, allowed
from tests.unit.aws.rig import (
    ADOPTED,
    BUCKET,
    CREATED,
    L40S,
    SYSTEM,
    declared,
    document,
    model,
    upstream,
)

GROUPS = {**CREATED, "autoMode": False}
POOLS = {"l40s": {**L40S, "capacityTypes": ["SPOT", "ON_DEMAND"]}, "system": SYSTEM}
STORE = {"weights": BUCKET}
FIXED = {
    "l40s": {**L40S, "size": {"min": 1, "max": 1}},
    "system": {**SYSTEM, "size": {"min": 2, "max": 2}},
}
RESIZE = ("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup")
GROUP = "arn:aws:autoscaling:us-east-1:111122223333:autoScalingGroup:1-2:autoScalingGroupName/eks-l40s-spot-1-2"


@pytest.fixture(scope="module")
def installed() -> Recording:
    return declared(
        cluster=GROUPS,
        nodePools=POOLS,
        storage=STORE,
        models={"llama": model(drainSeconds=1200)},
        gateway={"exposure": "internal"},
    )


def deployments(recording: Recording) -> list[Any]:
    return [
        each
        for each in recording.of_type("kubernetes:apps/v1:Deployment")
        if each.name == "cluster-autoscaler"
    ]


@pytest.mark.parametrize(
    ("cluster", "pools", "expected"),
    [
        (GROUPS, POOLS, True),
        (GROUPS, FIXED, False),
        ({**GROUPS, "autoscaler": "install"}, FIXED, True),
        ({**GROUPS, "autoscaler": "existing"}, POOLS, False),
        ({**GROUPS, "autoscaler": "none"}, POOLS, False),
        ({**CREATED, "autoMode": True}, POOLS, False),
        (
            {**CREATED, "autoMode": True},
            {**POOLS, "l40s": {**POOLS["l40s"], "nodes": "nodeGroup"}},
            True,
        ),
        (ADOPTED, POOLS, False),
        ({**ADOPTED, "autoscaler": "install"}, POOLS, True),
    ],
)
def test_it_is_installed_only_where_node_groups_grow_and_nobody_else_runs_one(
    cluster, pools, expected
):
    recording = declared(cluster=cluster, nodePools=pools, storage=STORE, models={})
    assert bool(deployments(recording)) == expected
    assert bool([each for each in recording if each.name == "cluster-controllers"]) == expected


def test_it_resizes_the_groups_of_its_cluster_and_no_others(installed):
    rights = [
        document(
            installed.one("aws:iam/rolePolicy:RolePolicy", "cluster-autoscaler").inputs["policy"]
        )
    ]
    tag = "aws:ResourceTag/k8s.io/cluster-autoscaler/{}"
    for action in RESIZE:
        assert allowed(rights, Request(action, GROUP, context={tag.format("prod"): "owned"}))
        assert not allowed(rights, Request(action, GROUP, context={tag.format("staging"): "owned"}))
        assert not allowed(rights, Request(action, GROUP))
        assert not allowed(
            rights,
            Request(
                action,
                GROUP.replace("us-east-1", "eu-west-1"),
                context={tag.format("prod"): "owned"},
            ),
        )
    assert allowed(rights, Request("autoscaling:DescribeAutoScalingGroups"))
    assert not allowed(
        rights,
        Request("autoscaling:DeleteAutoScalingGroup", GROUP, context={tag.format("prod"): "owned"}),
    )
    assert not allowed(rights, Request("ec2:TerminateInstances"))


def test_only_its_own_service_account_has_the_role(installed):
    trust = document(
        installed.one("aws:iam/role:Role", "cluster-autoscaler").inputs["assumeRolePolicy"]
    )
    [statement] = trust["Statement"]
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-name": "prod",
        "aws:RequestTag/kubernetes-namespace": "cluster-controllers",
        "aws:RequestTag/kubernetes-service-account": "cluster-autoscaler",
    }


def test_spot_comes_before_on_demand_and_every_other_group_last(installed):
    data = installed.one(
        "kubernetes:core/v1:ConfigMap", "cluster-autoscaler-priority-expander"
    ).inputs["data"]
    ranks = yaml.safe_load(data["priorities"])

    def rank(group: str) -> int:
        return max(
            rank
            for rank, patterns in ranks.items()
            if any(re.search(pattern, group) for pattern in patterns)
        )

    assert (
        rank("eks-l40s-spot-1a2b3c4-5d6e")
        > rank("eks-l40s-on-demand-1a2b3c4-5d6e")
        > rank("eks-of-another-stack")
    )


def test_it_finds_the_groups_of_the_cluster_and_waits_for_the_slowest_model(installed):
    [deployment] = deployments(installed)
    [container] = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert (
        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod"
        in container["args"]
    )
    assert "--max-graceful-termination-sec=1225" in container["args"]
    assert {"name": "AWS_REGION", "value": "us-east-1"} in container["env"]


def test_the_namespace_of_the_stack_is_deleted_before_it(installed):
    [deployment] = deployments(installed)
    home = installed.one("kubernetes:core/v1:Namespace", "inference")
    assert deployment.urn in upstream(installed, home.urn)


@pytest.mark.parametrize("minor", range(OLDEST_KUBERNETES[1], NEWEST_KUBERNETES[1] + 1))
def test_each_kubernetes_version_has_its_release(minor):
    image = image_of(f"1.{minor}")
    assert image.startswith(f"registry.k8s.io/autoscaling/cluster-autoscaler:v1.{minor}.")
    assert facts_of(image) is not None


def test_a_newer_kubernetes_gets_the_newest_release():
    assert image_of("1.99") == image_of(f"1.{NEWEST_KUBERNETES[1]}")
