"""The owner of each field of a Kubernetes object: the stack, a scaler, a controller, the API server, or people.

A field that is not in the table belongs to the program that declares it, which is the stack for everything in its file. Field
managers are named by their programs: `metadata.managedFields` has one entry for each.
"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from kube.paths import Path, covers, parse


class Owner(StrEnum):
    STACK = "stack"
    SCALER = "scaler"
    CONTROLLER = "controller"
    SERVER = "server"
    PEOPLE = "people"


SCALED: Final = {"Deployment": ("spec.replicas",), "LeaderWorkerSet": ("spec.replicas",), "StatefulSet": ("spec.replicas",)}
"""By kind, the paths that a scaler owns (a HorizontalPodAutoscaler, KEDA) in an object that it scales.

Declare the minimum in these fields, and list them in `ignore_changes`. Both engines write it when they create the object, keep the
live value while no one else has written the field, and send nothing once a scaler has. An object that stopped declaring
`spec.replicas` would drop to one replica, because server-side apply removes what its owner no longer declares (seen with
provider 4.32). Ray's autoscaler changes the RayCluster that KubeRay creates, and never our RayService.
"""


SCALER_BOUNDS: Final = {
    "HorizontalPodAutoscaler": (("minReplicas", 1), ("maxReplicas", 1)),
    "ScaledObject": (("minReplicaCount", 0), ("maxReplicaCount", 100)),
}
"""By kind of a scaler, the fields of the least and the most replicas, each with its default."""


_STACK, _SERVER, _CONTROLLER, _PEOPLE, _SCALER = Owner.STACK, Owner.SERVER, Owner.CONTROLLER, Owner.PEOPLE, Owner.SCALER
_SERVERS_METADATA = ("creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")

_OWNERS: Final[dict[str, dict[Owner, tuple[str, ...]]]] = {
    "*": {
        _SERVER: tuple(f"metadata.{name}" for name in _SERVERS_METADATA),
        _CONTROLLER: (
            *("status", "metadata.finalizers", "metadata.ownerReferences"),
            'metadata.annotations["deployment.kubernetes.io/revision"]',
        ),
        # `kubectl rollout restart` and `kubectl cordon` are operations, not changes of the declaration.
        _PEOPLE: (
            'metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]',
            'spec.template.metadata.annotations["kubectl.kubernetes.io/restartedAt"]',
        ),
    },
    "Service": {_SERVER: ("spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort", "spec.ports[*].nodePort")},
    "Namespace": {_SERVER: ("spec.finalizers",)},
    "PersistentVolumeClaim": {_CONTROLLER: ("spec.volumeName",)},
    "PersistentVolume": {_CONTROLLER: ("spec.claimRef.uid", "spec.claimRef.resourceVersion")},
    "Job": {
        _CONTROLLER: (
            "spec.selector",
            'spec.template.metadata.labels["controller-uid"]',
            'spec.template.metadata.labels["batch.kubernetes.io/controller-uid"]',
        )
    },
    "ServiceAccount": {_CONTROLLER: ("secrets",)},
    "MutatingWebhookConfiguration": {_CONTROLLER: ("webhooks[*].clientConfig.caBundle",)},
    "ValidatingWebhookConfiguration": {_CONTROLLER: ("webhooks[*].clientConfig.caBundle",)},
    "CustomResourceDefinition": {_CONTROLLER: ("spec.conversion.webhook.clientConfig.caBundle",)},
    "APIService": {_CONTROLLER: ("spec.caBundle",)},
    "Deployment": {_PEOPLE: ("spec.paused",)},
    "Node": {_PEOPLE: ("spec.unschedulable",), _CONTROLLER: ("spec.podCIDR", "spec.podCIDRs", "spec.providerID")},
}
"""By kind ("*" is every kind), the paths that each owner decides about, with everything below them."""

_QUEUED: Final = ("spec.suspend", "spec.template.spec.nodeSelector", "spec.template.spec.tolerations")
"""Paths that Kueue changes in a Job that it admits: it starts the Job, and places its pods on the nodes of a flavor."""

_ADDED_BY_ANYONE: Final = tuple(map(parse, ("metadata.labels", "metadata.annotations")))
"""Maps to which anyone may add keys."""

NODE_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler", "karpenter.sh/")
"""Starts of the keys of taints that controllers add to nodes."""

_MANAGERS: Final = {
    _STACK: ("pulumi-kubernetes", "pulumi-kubernetes-*", "inferplan-rehearsal"),
    _CONTROLLER: (
        *(
            "kube-controller-manager",
            "kube-scheduler",
            "kube-apiserver",
            "kubelet",
            "cloud-controller-manager",
            "aws-cloud-controller-manager",
        ),
        *("eks", "kwok", "kwok-controller", "kueue", "kuberay-operator", "ray-operator", "envoy-gateway", "external-dns", "karpenter"),
        # The operators of KubeRay, Kueue and LeaderWorkerSet, and those of Karpenter and the AWS Load Balancer Controller.
        *("manager", "controller"),
        *("cert-manager", "cert-manager-*", "cainjector", "inferplan-stub"),
    ),
    _SCALER: (
        *("keda", "keda-operator", "cluster-autoscaler", "horizontal-pod-autoscaler"),
        *("vpa-updater", "vpa-recommender", "vpa-admission-controller"),
    ),
}
"""Names of the field managers of programs, complete or with `*` after a hyphen. A program that chooses none has its binary's name."""

_SCALE: Final = "scale"


def owner_of(kind: str, path: Path, *, queued: bool = False) -> Owner:
    if queued and any(covers(parse(text), path) for text in _QUEUED):
        return Owner.CONTROLLER
    return next((owner for pattern, owner in _rules_of(kind) if covers(pattern, path)), Owner.STACK)


def anyone_adds(kind: str, path: Path, *, queued: bool = False) -> bool:
    """Return True if others may set a value at `path` that the stack does not declare: another label, or a field of a controller."""
    return any(covers(pattern, path) for pattern in _ADDED_BY_ANYONE) or owner_of(kind, path, queued=queued) is not Owner.STACK


def manager_of(name: str, subresource: str = "") -> Owner:
    """Return the owner that the field manager `name` acts for, writing through `subresource` or the object itself."""
    owner = next((owner for owner, patterns in _MANAGERS.items() if any(fnmatchcase(name, each) for each in patterns)), Owner.PEOPLE)
    if owner is Owner.STACK:
        return owner
    if owner is Owner.CONTROLLER and subresource == _SCALE:
        return Owner.SCALER
    return Owner.CONTROLLER if owner is Owner.PEOPLE and subresource not in ("", _SCALE) else owner


@cache
def _rules_of(kind: str) -> tuple[tuple[Path, Owner], ...]:
    rules = (rule for each in ("*", kind) for rule in _OWNERS.get(each, {}).items())
    return tuple((parse(path), owner) for owner, paths in rules for path in paths)
