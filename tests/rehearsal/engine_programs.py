"""Small programs for the tests of the rehearsal engine, and views of the objects that they leave in
the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace, Secret, Service

from inferplan.kube.api import Api, ApiError
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from inferplan.rehearsal.cluster import Cluster

PROJECT = "engine"


class Node(pulumi.CustomResource):
    """A fake node with eight accelerators."""

    def __init__(self, name: str, accelerators: int = 8) -> None:
        capacity = {
            "cpu": "64",
            "memory": "256Gi",
            "pods": "110",
            "nvidia.com/gpu": str(accelerators),
        }
        super().__init__(
            "kubernetes:core/v1:Node",
            name,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {"pool": name},
                },
                "spec": {
                    "taints": [
                        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
                    ]
                },
                "status": {"capacity": capacity, "allocatable": capacity},
            },
        )


def pod(accelerators: int = 1, pool: str | None = None, image: str = "server:1") -> dict[str, Any]:
    """The spec of a pod that may land on a fake node."""
    container = {
        "name": "server",
        "image": image,
        "resources": {"limits": {"nvidia.com/gpu": str(accelerators)}},
    }
    spec: dict[str, Any] = {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [container],
    }
    return spec if pool is None else spec | {"nodeSelector": {"pool": pool}}


def model(
    name: str,
    namespace: pulumi.Input[str],
    *,
    pool: str,
    replicas: int = 1,
    image: str = "server:1",
    accelerators: int = 1,
    seconds: int = PATIENCE_SECONDS,
) -> Deployment:
    """A Job that gates a Deployment behind a Service: three objects."""
    metadata: Any = {"name": name, "namespace": namespace}
    limit = pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s")
    gating: Any = {"template": {"spec": {**pod(0, pool, image), "restartPolicy": "Never"}}}
    gate = Job(f"{name}-gate", metadata=metadata | {"name": f"{name}-gate"}, spec=gating)
    template = {"metadata": {"labels": {"model": name}}, "spec": pod(accelerators, pool)}
    spec: Any = {
        "replicas": replicas,
        "selector": {"matchLabels": {"model": name}},
        "template": template,
    }
    server = Deployment(
        name,
        metadata=metadata,
        spec=spec,
        opts=pulumi.ResourceOptions(depends_on=[gate], custom_timeouts=limit),
    )
    Service(name, metadata=metadata, spec={"selector": {"model": name}, "ports": [{"port": 8000}]})
    return server


def platform(
    namespace: str,
    *,
    models: int = 3,
    replicas: int = 1,
    image: str = "server:1",
    key: str = "hush-hush",
    made: bool = True,
) -> None:
    """A fake node, a namespace, a key, and `models` models; the first has `replicas`, the gates run
    `image`.

    `made=False` leaves the namespace out: deleting one takes its controller five seconds whatever
    is in it.
    """
    Node(f"{namespace}-node")
    place = (
        Namespace("namespace", metadata={"name": namespace}).metadata.name if made else namespace
    )
    secret = Secret(
        "key",
        metadata={"name": "key", "namespace": place},
        string_data={"key": pulumi.Output.secret(key)},
    )
    ConfigMap(
        "settings", metadata={"name": "settings", "namespace": place}, data={"models": str(models)}
    )
    for index in range(models):
        server = model(
            f"model-{index}",
            place,
            pool=f"{namespace}-node",
            replicas=replicas if index == 0 else 1,
            image=image,
        )
        pulumi.export(f"available-{index}", server.status.available_replicas)
    pulumi.export("key", secret.data)


def api_of(cluster: Cluster) -> Api:
    """A client of the cluster."""
    return cluster.api()


KINDS = [
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
]


def objects_in(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """The objects of the kinds that the programs declare, by `Kind name`, without what Kubernetes
    puts there itself.
    """
    api = api_of(cluster)
    found = {}
    for version, kind in KINDS:
        for each in api.request("GET", api.resource(version, kind).path(namespace))["items"]:
            if each["metadata"]["name"] not in ("kube-root-ca.crt", "kubernetes"):
                found[f"{kind} {each['metadata']['name']}"] = each
    return found


def exists(cluster: Cluster, path: str) -> bool:
    """Whether the object at `path` is there."""
    try:
        api_of(cluster).request("GET", path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def names(targets: Any) -> list[str]:
    """Targets as `Kind name`, sorted."""
    return sorted(f"{each.kind} {each.name}" for each in targets)
