"""What the Kubernetes provider adds to inputs before an engine sees them: automatic names.

The provider appends random hex digits (pulumi-kubernetes, provider/pkg/metadata/naming.go, read 2026-11); here the
digits come from the URN, so that the same program gives the same plan. Anything else the provider does at check
time (schema validation, default namespaces of its configuration) is left to the API server.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTONAMED = "pulumi.com/autonamed"


def is_object(type_: str, inputs: Mapping[str, Any]) -> bool:
    """Whether a registration of `type_` stands for one object of the Kubernetes API."""
    return type_.startswith("kubernetes:") and isinstance(inputs.get("kind"), str) and isinstance(inputs.get("apiVersion"), str)


def is_patch(type_: str) -> bool:
    """Whether `type_` is one of the provider's Patch resources, which own some fields of an object made elsewhere."""
    return type_.startswith("kubernetes:") and type_.endswith("Patch")


def with_name(type_: str, name: str, urn: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """`inputs` with `metadata.name` filled in where the program gave none, marked as the provider marks it."""
    if not is_object(type_, inputs) or is_patch(type_):
        return inputs
    metadata = inputs.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or metadata.get("name") or metadata.get("generateName"):
        return inputs
    digits = hashlib.sha256(urn.encode()).hexdigest()[:8]
    annotations = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    return {**inputs, "metadata": {**metadata, "annotations": annotations, "name": f"{name}-{digits}"}}
