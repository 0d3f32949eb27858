"""Kueue's objects of a stack: a flavor for each pool, and for each queue what it hands out, where workloads name it, who goes first.

It installs no Kueue and admits nothing; workloads carry the labels of `components.queue.names`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.meta import v1 as meta

from components.handles import NodeTarget
from components.naming import labels
from components.queue.names import API_VERSION, priority_class, scoped
from components.queue.quota import Amounts, covered, granted, quantity_of
from components.queue.spec import PoolQuota, QueueSpec

COMPONENT = "queue"
# A pool of a queue that limits pods elsewhere only: more pods than any cluster runs.
_NO_LIMIT = 1_000_000


class Queues(pulumi.ComponentResource):
    """ResourceFlavors, ClusterQueues, LocalQueues and WorkloadPriorityClasses; lends what a workload waits for, by queue."""

    ready: Mapping[str, pulumi.Resource]
    """The LocalQueue by the queue's name: a workload that comes before it is held back until Kueue has seen it."""

    def __init__(
        self,
        name: str,
        specs: Mapping[str, QueueSpec],
        *,
        targets: Mapping[str, NodeTarget],
        scope: str,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:queue:Queues", name, {"spec": {each: spec.intent() for each, spec in specs.items()}}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._scope = scope
        flavors = {
            pool: self._made("ResourceFlavor", f"{pool}-flavor", scoped(scope, pool), pool, flavor(targets[pool]))
            for pool in dict.fromkeys(pool for spec in specs.values() for pool in spec.pools)
        }
        ready = {}
        for queue, spec in specs.items():
            for priority, value in spec.priorities.items():
                _priority_class(f"{queue}-{priority}", priority_class(scope, queue, priority), queue, value, opts=self._child)
            made = self._made(
                "ClusterQueue",
                queue,
                scoped(scope, queue),
                queue,
                cluster_queue(spec, targets, scope=scope),
                after=[flavors[pool] for pool in spec.pools],
            )
            pointed = {"clusterQueue": scoped(scope, queue)}
            ready[queue] = self._made("LocalQueue", f"{queue}-local", queue, queue, pointed, namespace=namespace, after=[made])
        self.ready = ready
        self.register_outputs({"queues": list(ready)})

    def _made(
        self,
        kind: str,
        name: str,
        called: str,
        instance: str,
        spec: dict[str, Any],
        *,
        namespace: pulumi.Input[str] | None = None,
        after: Sequence[pulumi.Resource] = (),
    ) -> pulumi.Resource:
        # Names in Kueue's objects are plain text, so the order in which they are made has to be said.
        opts = pulumi.ResourceOptions(parent=self, depends_on=list(after))
        metadata = meta.ObjectMetaArgs(name=called, namespace=namespace, labels=labels(COMPONENT, instance))
        return CustomResource(name, api_version=API_VERSION, kind=kind, metadata=metadata, spec=spec, opts=opts)


def _priority_class(name: str, called: str, queue: str, value: int, *, opts: pulumi.ResourceOptions) -> None:
    # The SDK's own CustomResource takes `spec` only, and this kind has its value beside it.
    written = {"apiVersion": API_VERSION, "kind": "WorkloadPriorityClass", "value": value}
    metadata = {"name": called, "labels": labels(COMPONENT, queue)}
    pulumi.CustomResource(f"kubernetes:{API_VERSION}:WorkloadPriorityClass", name, {**written, "metadata": metadata}, opts)


def flavor(target: NodeTarget) -> dict[str, Any]:
    """The nodes of a pool as a flavor: its labels, and its taints, so that only workloads that tolerate them are counted in."""
    spec: dict[str, Any] = {"nodeLabels": dict(target.node_selector)}
    if target.taints:
        spec["nodeTaints"] = [{"key": each.key, "value": each.value, "effect": each.effect} for each in target.taints]
    return spec


def cluster_queue(spec: QueueSpec, targets: Mapping[str, NodeTarget], *, scope: str) -> dict[str, Any]:
    """The `spec` of a ClusterQueue, open to the namespace `scope` alone; every pool hands out every covered resource."""
    resources = covered(spec, targets)
    flavors = [
        {"name": scoped(scope, pool), "resources": [_resource(each, quota, targets[pool]) for each in resources]}
        for pool, quota in spec.pools.items()
    ]
    written: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scope}},
        "queueingStrategy": spec.queueing_strategy,
        "resourceGroups": [{"coveredResources": resources, "flavors": flavors}],
        "preemption": {
            "withinClusterQueue": spec.preemption.within_cluster_queue,
            "reclaimWithinCohort": spec.preemption.reclaim_within_cohort,
        },
    }
    return written if spec.cohort is None else {**written, "cohortName": spec.cohort}


def _resource(name: str, quota: PoolQuota, target: NodeTarget) -> dict[str, Any]:
    amounts: Amounts = granted(quota, target)
    nominal = amounts.get(name, _NO_LIMIT if name == "pods" else 0)
    written = {"name": name, "nominalQuota": quantity_of(name, nominal)}
    if target.accelerator is not None and name == target.accelerator.resource:
        limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
        written |= {key: str(value) for key, value in limits.items() if value is not None}
    return written
