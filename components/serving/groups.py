"""Replicas of several pods: a leader that answers and workers that join it, as the LeaderWorkerSet that keeps them together.

It installs no operator. The operator's own names for pods derive from the set's, which differs from the model's: the operator
makes a headless Service called like the set, and the model's own Service must not stand in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

from components.handles import SecretRef
from components.naming import labels, selector
from components.network import pods
from components.serving import workload
from components.serving.engine import Site
from components.serving.served_model import ServedModel
from kube.names import DOMAIN

ROLE = f"{DOMAIN}/role"
LEADER_ADDRESS, WORKER_INDEX = "$(LWS_LEADER_ADDRESS)", "$(LWS_WORKER_INDEX)"
"""What the operator puts into every container's environment, in the spelling that Kubernetes expands in arguments."""


def set_name(model: str) -> str:
    """What the LeaderWorkerSet of `model` is called."""
    return f"{model}-group"


def answering(name: str) -> dict[str, str]:
    """The labels of the pods that answer requests to the model, the same for replicas of one pod and of several.

    So the Service selects the pods of both while a model changes from one form to the other, and never a group's workers.
    """
    return {**selector(workload.COMPONENT, name), ROLE: "leader"}


def leader_worker_set(
    name: str,
    spec: ServedModel,
    pod: core.PodTemplateSpecArgs,
    worker: core.PodTemplateSpecArgs,
    *,
    site: Site,
    opts: pulumi.ResourceOptions,
) -> CustomResource:
    """Declares the LeaderWorkerSet; `pod` is the leader's template, and both engines wait until it is Available."""
    surge = spec.rollout == "surge"
    annotations = {"pulumi.com/waitFor": "condition=Available"} if spec.replicas else None
    return CustomResource(
        name,
        api_version="leaderworkerset.x-k8s.io/v1",
        kind="LeaderWorkerSet",
        metadata=meta.ObjectMetaArgs(
            name=set_name(name),
            namespace=site.namespace,
            labels={**labels(workload.COMPONENT, name), **site.queue_labels},
            annotations=annotations,
        ),
        spec={
            "replicas": spec.replicas,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 1 if surge else 0, "maxUnavailable": 0 if surge else 1},
            },
            "leaderWorkerTemplate": {
                "size": spec.pods,
                # Ranks that lost one of them wait for it for ever, so all of them start anew.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": pod,
                "workerTemplate": worker,
            },
        },
        opts=opts,
    )


def leader_of(server: workload.Server) -> workload.Server:
    """What the first pod of a replica runs, or the only one."""
    return replace(server, labels={**server.labels, ROLE: "leader"})


def worker_of(server: workload.Server, keys: Collection[SecretRef]) -> workload.Server:
    """What the further pods of a replica run: they answer nobody, so they have no port, no probe and none of the server's `keys`."""
    secrets = {name: reference for name, reference in server.secret_env.items() if reference not in keys}
    return replace(server, args=server.worker_args, ports={}, secret_env=secrets, labels={**server.labels, ROLE: "worker"})


def edges(
    spec: ServedModel, chosen: Mapping[str, str]
) -> tuple[list[networking.NetworkPolicyIngressRuleArgs], list[networking.NetworkPolicyEgressRuleArgs]]:
    """The rules, in and out, by which the pods of a replica reach each other on ports that their engine picks."""
    if spec.pods == 1:
        return [], []
    picked = [networking.NetworkPolicyPortArgs(port=1024, end_port=65_535, protocol="TCP")]
    return (
        [networking.NetworkPolicyIngressRuleArgs(from_=[pods(chosen)], ports=picked)],
        [networking.NetworkPolicyEgressRuleArgs(to=[pods(chosen)], ports=picked)],
    )
