"""The lines that `inferplan usage` joins, from files or from the pods of a cluster."""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

from inferplan.commands.usage.usage import Line
from inferplan.errors import OperationError, RequestError
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from inferplan.kube.objects import label
from inferplan.workspace.kubectl import Kubectl

_CONTAINERS = {"gateway": "nginx", "model": "server"}
"""The container with lines about requests, by component."""


def lines_of_files(paths: list[str]) -> Iterator[Line]:
    """Yield the lines of files, also compressed by gzip; `-` is standard input. Raises RequestError."""
    for path in paths:
        if path == "-":
            yield from ((f"standard input:{n}", line) for n, line in enumerate(sys.stdin, 1))
            continue
        opened = gzip.open if path.endswith(".gz") else open
        try:
            with opened(Path(path), "rt", encoding="utf-8", errors="replace") as stream:
                yield from ((f"{path}:{number}", line) for number, line in enumerate(stream, 1))
        except OSError as error:
            reason = error.strerror or str(error)
            raise RequestError(
                f"--logs: {path!r} cannot be read: {reason}. Name files with lines of the gateway"
                " and of the model servers, or - for standard input."
            ) from None


def lines_of_cluster(
    cluster: Kubectl, namespace: str, models: set[str], missing: list[str]
) -> Iterator[Line]:
    """Yield what the gateway's pods, and those of `models`, logged and their nodes still have. Logs
    that cannot be read are added to `missing`, each with the reason. Raises OperationError.
    """
    space = f"/api/v1/namespaces/{namespace}/pods"
    for pod in cluster.get(space)["items"]:
        component, name = label(pod, COMPONENT_LABEL), pod["metadata"]["name"]
        container = _CONTAINERS.get(component)
        if container is None or (component == "model" and label(pod, INSTANCE_LABEL) not in models):
            continue
        try:
            text = cluster.text(f"{space}/{name}/log?container={container}")
        except OperationError as error:
            missing.append(str(error))
            continue
        yield from ((f"{name}:{number}", line) for number, line in enumerate(text.splitlines(), 1))
