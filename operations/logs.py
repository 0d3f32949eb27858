"""Reads the logs of a model's pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from operations.errors import OperationError, RequestError, UnsettledError
from stackfile.errors import unknown

if TYPE_CHECKING:
    from operations.workspace import Workspace


@dataclass(frozen=True)
class ContainerLog:
    """The last lines of one container; `problem` says why there are none."""

    pod: str
    container: str
    text: str
    problem: str = ""


class _Cluster(Protocol):
    def get(self, path: str) -> Any: ...

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str: ...


def read_logs(workspace: Workspace, model: str, *, context: str | None, lines: int) -> list[ContainerLog]:
    """Return the last `lines` of each container of `model`, of its preheat and of its engine build, by pod.

    Raises OperationError for an unknown model, and if the cluster of `context` (by default the stack's own) cannot be read or has no pod.
    """
    from operations.kubectl import real_cluster

    settings = workspace.settings
    if model not in settings.models:
        raise RequestError(unknown("model", model, settings.models, owner=workspace.stack))
    command = f"inferplan logs {model} --stack {workspace.typed}"
    cluster = real_cluster(workspace, context, otherwise=f"{model} has no logs there", command=command)
    return logs_of(cluster, settings.namespace, model, lines)


def logs_of(cluster: _Cluster, namespace: str, model: str, lines: int) -> list[ContainerLog]:
    """Return the logs of the pods of `model` in `namespace`, init containers first. Raises OperationError if there is no pod."""
    pods = cluster.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Finstance%3D{model}")["items"]
    if not pods:
        remedy = "inferplan status shows what is missing."
        raise UnsettledError(f"{model} has no pod in namespace {namespace}. {remedy}")
    logs = []
    for pod in sorted(pods, key=lambda each: each["metadata"]["name"]):
        name, spec = pod["metadata"]["name"], pod["spec"]
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            try:
                logs.append(ContainerLog(name, container["name"], cluster.log(namespace, name, container["name"], lines)))
            except OperationError as error:
                logs.append(ContainerLog(name, container["name"], "", str(error)))
    return logs
