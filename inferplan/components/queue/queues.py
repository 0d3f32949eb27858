"""The Kueue objects of a stack: a flavor per pool, and a ClusterQueue, a LocalQueue and priorities
per queue.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import CustomResource, meta
from inferplan.components.naming import labels
from inferplan.components.queue.quota import Amounts, covered_resources, quantity_of, quota_amounts
from inferplan.components.queue.spec import (
    PoolQuota,
    QueueSpec,
    cluster_scoped_name,
    priority_class,
)
from inferplan.kube.names import KUEUE_API

COMPONENT = "queue"
# For a pool without a pod limit in a queue that limits pods of another pool: more pods than any
# cluster runs.
_NO_LIMIT = 1_000_000


class Queues(pulumi.ComponentResource):
    """ResourceFlavors, ClusterQueues, LocalQueues and WorkloadPriorityClasses; exports the resource
    that workloads wait for, by queue.
    """

    ready: Mapping[str, pulumi.Resource]
    """The LocalQueue, by the name of the queue. Kueue does not admit a workload before it has seen
    its LocalQueue.
    """

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
        super().__init__(
            "inferplan:queue:Queues",
            name,
            {"spec": {each: spec.intent() for each, spec in specs.items()}},
            opts,
        )
        flavors = {
            pool: self._create(
                "ResourceFlavor",
                f"{pool}-flavor",
                cluster_scoped_name(scope, pool),
                pool,
                flavor(targets[pool]),
            )
            for pool in dict.fromkeys(pool for spec in specs.values() for pool in spec.pools)
        }
        ready = {}
        for queue, spec in specs.items():
            for priority, value in spec.priorities.items():
                _priority_class(
                    f"{queue}-{priority}",
                    priority_class(scope, queue, priority),
                    queue,
                    value,
                    opts=pulumi.ResourceOptions(parent=self),
                )
            cluster_spec, after = (
                cluster_queue(spec, targets, scope=scope),
                [flavors[pool] for pool in spec.pools],
            )
            cluster = self._create(
                "ClusterQueue",
                queue,
                cluster_scoped_name(scope, queue),
                queue,
                cluster_spec,
                after=after,
            )
            local = {"clusterQueue": cluster_scoped_name(scope, queue)}
            ready[queue] = self._create(
                "LocalQueue",
                f"{queue}-local",
                queue,
                queue,
                local,
                namespace=namespace,
                after=[cluster],
            )
        self.ready = ready
        self.register_outputs({"queues": list(ready)})

    def _create(
        self,
        kind: str,
        name: str,
        object_name: str,
        instance: str,
        spec: dict[str, Any],
        *,
        namespace: pulumi.Input[str] | None = None,
        after: Sequence[pulumi.Resource] = (),
    ) -> pulumi.Resource:
        # Kueue's objects refer to each other by plain names, so their order must be explicit.
        opts = pulumi.ResourceOptions(parent=self, depends_on=list(after))
        metadata: meta.ObjectMetaArgsDict = {
            "name": object_name,
            "namespace": namespace,
            "labels": labels(COMPONENT, instance),
        }
        return CustomResource(
            name, api_version=KUEUE_API, kind=kind, metadata=present(metadata), spec=spec, opts=opts
        )


def _priority_class(
    name: str, object_name: str, queue: str, value: int, *, opts: pulumi.ResourceOptions
) -> None:
    # The SDK's CustomResource supports only `spec`, but this kind has `value` at the top level.
    fields = {"apiVersion": KUEUE_API, "kind": "WorkloadPriorityClass", "value": value}
    metadata = {"name": object_name, "labels": labels(COMPONENT, queue)}
    pulumi.CustomResource(
        f"kubernetes:{KUEUE_API}:WorkloadPriorityClass",
        name,
        {**fields, "metadata": metadata},
        opts,
    )


def flavor(target: NodeTarget) -> dict[str, Any]:
    """Return the spec of a pool's ResourceFlavor: its labels, and its taints, so that it admits
    only workloads that tolerate them.
    """
    spec: dict[str, Any] = {"nodeLabels": dict(target.node_selector)}
    if target.taints:
        spec["nodeTaints"] = [
            {"key": each.key, "value": each.value, "effect": each.effect} for each in target.taints
        ]
    return spec


def cluster_queue(
    spec: QueueSpec, targets: Mapping[str, NodeTarget], *, scope: str
) -> dict[str, Any]:
    """Return the spec of a ClusterQueue for the namespace `scope`; every pool has a quota for every
    covered resource.
    """
    resources = covered_resources(spec, targets)
    flavors = [
        {
            "name": cluster_scoped_name(scope, pool),
            "resources": [_resource(each, quota, targets[pool]) for each in resources],
        }
        for pool, quota in spec.pools.items()
    ]
    queue: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scope}},
        "queueingStrategy": spec.queueing_strategy,
        "resourceGroups": [{"coveredResources": resources, "flavors": flavors}],
        "preemption": {
            "withinClusterQueue": spec.preemption.within_cluster_queue,
            "reclaimWithinCohort": spec.preemption.reclaim_within_cohort,
        },
    }
    return queue if spec.cohort is None else {**queue, "cohortName": spec.cohort}


def _resource(name: str, quota: PoolQuota, target: NodeTarget) -> dict[str, Any]:
    amounts: Amounts = quota_amounts(quota, target)
    nominal = amounts.get(name, _NO_LIMIT if name == "pods" else 0)
    resource = {"name": name, "nominalQuota": quantity_of(name, nominal)}
    if target.accelerator is not None and name == target.accelerator.resource:
        limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
        resource |= {key: str(value) for key, value in limits.items() if value is not None}
    return resource
