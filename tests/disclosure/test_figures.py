"""Capacity, cost, access and rollouts are computed from the real values: each text of the resources
that they read is a secret once, and none of those that are hidden shows in a figure.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from inferplan.kube.disclosure.disclosure import disclosed
from inferplan.kube.paths import leaves, text_of
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from tests.disclosure.canaries import Case, shown
from tests.disclosure.test_canaries import surfaces_of
from tests.policies.cases import put
from tests.review_streams import step, stream

SECRETS = "q7ZkVtX2mWbR9pLdYc4H", "x3NfGs8TjKv5QwE1uBnA"
LABELS = {"acme.example/pool": "l4"}
POD = {
    "metadata": {"labels": {"app": "chat", "kueue.x-k8s.io/queue-name": "gpus"}},
    "spec": {
        "nodeSelector": LABELS,
        "priorityClassName": "serving",
        "tolerations": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        "volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}],
        "containers": [
            {
                "name": "server",
                "image": "ghcr.io/acme/chat:1.0",
                "args": ["--model", "/models/chat"],
                "env": [{"name": "MODE", "value": "fast"}],
                "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "16Gi"}},
            }
        ],
    },
}
RESOURCES: dict[str, dict[str, Any]] = {
    "kubernetes:apps/v1:Deployment": {"metadata": {"name": "chat", "namespace": "ai", "labels": {"app": "chat"}, "annotations": {"note": "x"}}, "spec": {"replicas": 2, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "0"}}, "selector": {"matchLabels": {"app": "chat"}}, "template": POD}},
    "kubernetes:karpenter.sh/v1:NodePool": {"metadata": {"name": "l4"}, "spec": {"limits": {"nvidia.com/gpu": "8", "nodes": "4"}, "template": {"metadata": {"labels": LABELS}, "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}, "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}], "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.4xlarge"]}, {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}},
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass": {"metadata": {"name": "gpu"}, "spec": {"amiFamily": "AL2023", "role": "nodes", "userData": "echo", "tags": {"team": "ml"}, "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3"}}]}},
    "aws:eks/nodeGroup:NodeGroup": {"clusterName": "c", "nodeRoleArn": "arn:aws:iam::111122223333:role/nodes", "subnetIds": ["subnet-0123456789abcdef0"], "amiType": "AL2023_x86_64_NVIDIA", "instanceTypes": ["g6.4xlarge"], "capacityType": "ON_DEMAND", "diskSize": 100, "labels": LABELS, "tags": {"team": "ml"}, "scalingConfig": {"minSize": 1, "maxSize": 4, "desiredSize": 1}},
    "aws:ec2/launchTemplate:LaunchTemplate": {"name": "gpu", "instanceType": "p5.48xlarge", "userData": "echo", "tags": {"team": "ml"}, "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 100, "volumeType": "gp3"}}]},
    "aws:ebs/volume:Volume": {"size": 500, "type": "gp3", "availabilityZone": "us-east-1a", "tags": {"team": "ml"}},
    "kubernetes:core/v1:Service": {"metadata": {"name": "chat", "namespace": "ai", "annotations": {"note": "x"}}, "spec": {"selector": {"app": "chat"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}},
    "kubernetes:core/v1:Node": {"metadata": {"name": "n1", "labels": LABELS}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}},
    "kubernetes:core/v1:ResourceQuota": {"metadata": {"name": "q", "namespace": "ai"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}},
    "kubernetes:networking.k8s.io/v1:Ingress": {"metadata": {"name": "chat", "namespace": "ai", "annotations": {"note": "x"}}, "spec": {"ingressClassName": "nginx", "rules": [{"host": "llm.acme.example", "http": {"paths": [{"path": "/v1", "pathType": "Prefix", "backend": {"service": {"name": "chat", "port": {"number": 80}}}}]}}]}},
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": {"metadata": {"name": "chat", "namespace": "ai"}, "spec": {"podSelector": {"matchLabels": {"app": "chat"}}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": "http"}]}]}},
    "kubernetes:keda.sh/v1alpha1:ScaledObject": {"metadata": {"name": "chat", "namespace": "ai"}, "spec": {"scaleTargetRef": {"name": "chat"}, "minReplicaCount": 1, "maxReplicaCount": 4, "triggers": [{"type": "prometheus", "metadata": {"serverAddress": "http://p:9090", "query": "sum(x)", "threshold": "10"}}]}},
    "kubernetes:autoscaling/v2:HorizontalPodAutoscaler": {"metadata": {"name": "other", "namespace": "ai"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}, "minReplicas": 1, "maxReplicas": 3}},
    "kubernetes:core/v1:PersistentVolumeClaim": {"metadata": {"name": "weights", "namespace": "ai"}, "spec": {"storageClassName": "efs", "resources": {"requests": {"storage": "1Ti"}}}},
    "pulumi:providers:aws": {"region": "us-east-1", "profile": "x"},
}  # fmt: skip


def events(changed: str, path: tuple[str | int, ...], operation: str) -> bytes:
    """A stream with all resources, in which one text of the type `changed` is a secret."""
    steps = []
    for type_, inputs in RESOURCES.items():
        old, new = copy.deepcopy(inputs), copy.deepcopy(inputs)
        if type_ == changed:
            for side, secret in zip((old, new), SECRETS, strict=True):
                put(side, list(path), secret)
        sides = {"create": (None, new), "delete": (old, None)}.get(operation, (old, new))
        steps.append(step(operation if type_ == changed else "same", type_, "x", *sides))
    return stream(*steps)


def hidden_places() -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """The texts that a report hides if they are secrets."""
    for type_, inputs in RESOURCES.items():
        for path, value in leaves(inputs):
            changed = copy.deepcopy(inputs)
            put(changed, list(path), SECRETS[0])
            if isinstance(value, str) and SECRETS[0] not in json.dumps(disclosed(changed, type_)):
                yield type_, path


PLACES = list(hidden_places())


@pytest.mark.parametrize(
    ("type_", "path"), PLACES, ids=[f"{each.rpartition(':')[2]} {text_of(path)}" for each, path in PLACES]
)  # fmt: skip
def test_a_figure_shows_no_hidden_value(type_, path):
    for operation in ("create", "update", "delete"):
        case = Case("", type_, str(path), operation, SECRETS, events(type_, path, operation))
        assert shown(case, surfaces_of(case)) == [], operation


def test_figures_read_values_that_the_report_hides():
    """The capacity of a pool whose labels look random is counted, and they are not shown."""
    label = {"acme.example/pool": SECRETS[0]}
    group = copy.deepcopy(RESOURCES["aws:eks/nodeGroup:NodeGroup"]) | {"labels": label}
    provider = RESOURCES["pulumi:providers:aws"]
    steps = [
        step("same", "pulumi:providers:aws", "aws", provider, provider),
        step("create", "aws:eks/nodeGroup:NodeGroup", "gpu", None, group),
    ]
    report = make_report([read_bytes(stream(*steps))])
    assert report.stacks[0].cost
