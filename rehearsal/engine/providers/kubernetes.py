"""What the Kubernetes provider adds to inputs before an engine sees them: automatic names.

The provider appends random hex digits (pulumi-kubernetes, provider/pkg/metadata/naming.go, read 2026-11) and chooses
new ones when it replaces the object. In a plan the digits come from the URN and from what replaces the object when it
changes: the same program gives the same plan, and a replacement shows in whatever refers to the name. Anything else the
provider does at check time (schema validation, default namespaces of its configuration) is left to the API server.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from kube.paths import values_at
from rehearsal.engine.providers.replacement import replacing_patterns
from rehearsal.engine.wire.masking import mask, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTONAMED = "pulumi.com/autonamed"


def is_object(type_: str, inputs: Mapping[str, Any]) -> bool:
    """Whether a registration of `type_` stands for one object of the Kubernetes API."""
    return type_.startswith("kubernetes:") and isinstance(inputs.get("kind"), str) and isinstance(inputs.get("apiVersion"), str)


def is_patch(type_: str) -> bool:
    """Whether `type_` is one of the provider's Patch resources, which own some fields of an object made elsewhere."""
    return type_.startswith("kubernetes:") and type_.endswith("Patch")


def is_autonamed(inputs: Mapping[str, Any]) -> bool:
    """Whether the object's name was made here, because the program gave none."""
    metadata = inputs.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"


def renamed(inputs: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`inputs` of an object that is called `name`."""
    return {**inputs, "metadata": {**inputs["metadata"], "name": name}}


def with_name(type_: str, name: str, urn: str, inputs: dict[str, Any], *, provider: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` with `metadata.name` filled in where the program gave none, marked as the provider marks it.

    `provider` is the inputs of the explicit provider resource, {} for the default one.
    """
    if not is_object(type_, inputs) or is_patch(type_):
        return inputs
    metadata = inputs.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or metadata.get("name") or metadata.get("generateName"):
        return inputs
    patterns = replacing_patterns(inputs, provider=provider, patch=False)
    # Secrets leave no trace: without digests all of them look alike.
    content = to_json(mask([values_at(inputs, pattern) for pattern in patterns], urn=urn), digests=False)
    digits = hashlib.sha256(f"{urn}\0{json.dumps(content, sort_keys=True)}".encode()).hexdigest()[:8]
    annotations = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    return {**inputs, "metadata": {**metadata, "annotations": annotations, "name": f"{name}-{digits}"}}
