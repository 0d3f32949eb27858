"""Objects that the audit adds to those of the change: trials in a namespace of their own, and empty
copies of nodes.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from inferplan.audit.manifest import Object
from inferplan.audit.session import Session
from inferplan.kube.api import ApiError
from inferplan.kube.paths import mapping
from inferplan.rehearsal.wait.object_events import Key


def inside(version: str, kind: str, name: str, namespace: str, content: Object) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def empty_copies(nodes: Iterable[Object], prefix: str, taint: dict[str, Any]) -> Iterator[Object]:
    """Empty copies of `nodes` and of their devices, with a `taint` and a label of its key whose
    value is `prefix`.
    """
    for each in (each for each in nodes if each["kind"] in ("Node", "ResourceSlice")):
        metadata = {**each["metadata"], "name": f"{prefix}-{each['metadata']['name']}"}
        spec = dict(each.get("spec") or {})
        if each["kind"] == "Node":
            spec["taints"] = [*(spec.get("taints") or ()), taint]
            metadata["labels"] = {**mapping(each, "metadata", "labels"), taint["key"]: prefix}
        else:
            pool = {**spec["pool"], "name": f"{prefix}-{spec['pool']['name']}"}
            spec |= {"nodeName": f"{prefix}-{spec['nodeName']}", "pool": pool}
        yield {**each, "metadata": metadata, "spec": spec}


def remove(session: Session, version: str, key: Key) -> None:
    with contextlib.suppress(ApiError):
        path = session.api.resource(version, key.kind).path(key.namespace, key.name)
        session.api.request("DELETE", path, {"gracePeriodSeconds": 0})
