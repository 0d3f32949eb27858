"""Stub of the LeaderWorkerSet operator: a StatefulSet of leaders, one StatefulSet of workers per
group, and a Service.

Names, labels and variables are those of LeaderWorkerSet v0.10.0. Differences: the LeaderWorkerSet
owns every StatefulSet, a group is not recreated with one of its pods, and the webhook's group and
worker index are missing from pods.
"""

import hashlib

from inferplan.rehearsal.apply.operators.stub import Object, Stub, marked, objects, with_environment

_PREFIX = "leaderworkerset.sigs.k8s.io/"


def stub(live: Object, _owned: list[Object]) -> Stub:
    spec, metadata = live["spec"], live["metadata"]
    name, templates = metadata["name"], spec["leaderWorkerTemplate"]
    groups, size = spec["replicas"], templates["size"]
    paths = [f"{metadata['namespace']}/{name}-{group}" for group in range(groups)]
    keys = [hashlib.sha1(each.encode(), usedforsecurity=False).hexdigest() for each in paths]
    # Pulumi's annotations would make the rehearsal wait for a StatefulSet as for the
    # LeaderWorkerSet.
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if not key.startswith("pulumi.com/")
    }
    labels = metadata.get("labels") or {}
    children = objects(
        "leader_worker_set",
        live,
        groups=groups,
        size=size,
        keys=keys,
        labels=labels,
        annotations=annotations,
    )
    for each in children[1:]:
        marks, is_leader = each["spec"]["template"], each["metadata"]["name"] == name
        pods = (templates.get("leaderTemplate") if is_leader else None) or templates[
            "workerTemplate"
        ]
        pods = marked(pods, labels=marks["labels"], annotations=marks["annotations"])
        each["spec"]["template"] = with_environment(pods, marks["variables"])
    selector = f"{_PREFIX}name={name},{_PREFIX}worker-index=0"
    return Stub(
        operator="LeaderWorkerSet operator",
        children=children,
        condition="Available",
        status={
            "replicas": groups,
            "readyReplicas": groups,
            "updatedReplicas": groups,
            "hpaPodSelector": selector,
        },
        # Kueue recognizes the pods of a group by these labels.
        pod_labels={
            f"{name}-{group}": {f"{_PREFIX}group-index": str(group)} for group in range(groups)
        },
    )
