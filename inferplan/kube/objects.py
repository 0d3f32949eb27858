"""Parts of one Kubernetes object: labels, annotations and conditions."""

from collections.abc import Mapping
from typing import Any

from inferplan.kube.paths import mapping


def object_text(kind: str, namespace: str, name: str) -> str:
    """Return an object as text: `Deployment inference/llama`, `Node node-1`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def label(manifest: Mapping[str, Any], name: str) -> str:
    return mapping(manifest, "metadata", "labels").get(name, "")


def annotation(manifest: Mapping[str, Any], name: str) -> str:
    value = mapping(manifest, "metadata", "annotations").get(name)
    return "" if value is None else str(value)


def condition(manifest: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the condition of type `kind`, {} if the object has none."""
    conditions = mapping(manifest, "status").get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def is_true(manifest: Mapping[str, Any], kind: str) -> bool:
    return condition(manifest, kind).get("status") == "True"
