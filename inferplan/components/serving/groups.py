"""Replicas of one pod as a Deployment, and of several pods (a leader that serves, workers that join
it) as a LeaderWorkerSet.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pulumi

from inferplan.components.fields import manifest
from inferplan.components.handles import SecretRef
from inferplan.components.kubernetes import CustomResource, apps, core, meta, networking
from inferplan.components.naming import selector
from inferplan.components.network import pods
from inferplan.components.serving import server_container, workload
from inferplan.components.serving.demand import Timing
from inferplan.components.serving.engine import Site
from inferplan.components.serving.model_parts import PlacedModel
from inferplan.kube.names import DOMAIN

ROLE = f"{DOMAIN}/role"
LEADER_ADDRESS, WORKER_INDEX = "$(LWS_LEADER_ADDRESS)", "$(LWS_WORKER_INDEX)"
"""Variables that the operator sets in every container, in the spelling that Kubernetes expands in
arguments.
"""


def set_name(model: str) -> str:
    return f"{model}-group"


def scale_target(name: str, spec: PlacedModel) -> dict[str, str]:
    """Return the workload of model `name`, as a scaler names it."""
    if spec.pods == 1:
        return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "name": set_name(name),
    }


def answering(name: str) -> dict[str, str]:
    """Return the labels of the pods that serve the model: replicas of one pod, and leaders of
    several, but never workers.
    """
    return {**selector(workload.COMPONENT, name), ROLE: "leader"}


def _surge(spec: PlacedModel) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable. In place, a replica's accelerators are free before its
    successor requests them, even in a full pool.
    """
    return (1, 0) if spec.rollout == "surge" else (0, 1)


def deployment(
    name: str, spec: PlacedModel, pod: core.PodTemplateSpecArgsDict, *, times: Timing
) -> apps.DeploymentSpecArgsDict:
    max_surge, max_unavailable = _surge(spec)
    return apps.DeploymentSpecArgsDict(
        replicas=spec.min_replicas,
        selector=meta.LabelSelectorArgsDict(match_labels=selector(workload.COMPONENT, name)),
        strategy=apps.DeploymentStrategyArgsDict(
            type="RollingUpdate",
            rolling_update=apps.RollingUpdateDeploymentArgsDict(
                max_surge=max_surge, max_unavailable=max_unavailable
            ),
        ),
        progress_deadline_seconds=times.progress_deadline,
        revision_history_limit=3,
        template=pod,
    )


def leader_worker_set(
    name: str,
    spec: PlacedModel,
    leader: core.PodTemplateSpecArgsDict,
    worker: core.PodTemplateSpecArgsDict,
    *,
    site: Site,
    opts: pulumi.ResourceOptions,
) -> CustomResource:
    """Declare the LeaderWorkerSet; both engines wait until it is Available."""
    max_surge, max_unavailable = _surge(spec)
    waits = {"pulumi.com/waitFor": "condition=Available"} if spec.min_replicas else None
    return CustomResource(
        name,
        api_version="leaderworkerset.x-k8s.io/v1",
        kind="LeaderWorkerSet",
        metadata=workload.object_meta(
            name, site, called=set_name(name), queued=True, annotations=waits
        ),
        spec={
            "replicas": spec.min_replicas,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {
                    "maxSurge": max_surge,
                    "maxUnavailable": max_unavailable,
                },
            },
            "leaderWorkerTemplate": {
                "size": spec.pods,
                # When one rank is lost, the others wait for it indefinitely, so all of them
                # restart.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": manifest(leader),
                "workerTemplate": manifest(worker),
            },
        },
        opts=opts,
    )


def leader_of(server: server_container.Server) -> server_container.Server:
    return replace(server, labels={**server.labels, ROLE: "leader"})


def worker_of(
    server: server_container.Server, keys: Collection[SecretRef]
) -> server_container.Server:
    """Return the server of the other pods of a replica: they serve no requests, so they have no
    port, no probe and none of the `keys`.
    """
    secrets = {
        name: reference for name, reference in server.secret_env.items() if reference not in keys
    }
    return replace(
        server,
        args=server.worker_args,
        ports={},
        secret_env=secrets,
        labels={**server.labels, ROLE: "worker"},
    )


def pod_edges(
    chosen: Mapping[str, str],
) -> tuple[
    list[networking.NetworkPolicyIngressRuleArgsDict],
    list[networking.NetworkPolicyEgressRuleArgsDict],
]:
    """Return the ingress and egress rules between pods with the labels `chosen`, on ports that
    their engine picks.
    """
    picked = [networking.NetworkPolicyPortArgsDict(port=1024, end_port=65_535, protocol="TCP")]
    return (
        [networking.NetworkPolicyIngressRuleArgsDict(from_=[pods(chosen)], ports=picked)],
        [networking.NetworkPolicyEgressRuleArgsDict(to=[pods(chosen)], ports=picked)],
    )
