"""Decisions of the Kubernetes provider: names of objects, and which changes replace an object
instead of updating it.

Sources: pulumi-kubernetes, provider/pkg/metadata/naming.go (2026-11) and
provider/pkg/provider/diff.go (commit 94977969, 2026-07-01); the table is `kubernetes.toml`. Where
the server rejects an update, `apply` replaces the object too.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from inferplan.kube.paths import Path, covers, parse, values_at
from inferplan.pulumi_engine.values import mask, to_json
from inferplan.tables import table

AUTONAMED = "pulumi.com/autonamed"


def is_object(type_: str, inputs: Mapping[str, Any]) -> bool:
    """True if a registration of `type_` is one whole object of the Kubernetes API, not a Patch
    resource.
    """
    is_kind = type_.startswith("kubernetes:") and not type_.endswith("Patch")
    return (
        is_kind
        and isinstance(inputs.get("kind"), str)
        and isinstance(inputs.get("apiVersion"), str)
    )


def metadata_of(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an object, {} if it is missing or not a map."""
    metadata = inputs.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def identity(
    type_: str, inputs: Mapping[str, Any], namespace: str
) -> tuple[str, str, str, str] | None:
    """API group, kind, namespace (by default `namespace`) and name of an object; None if it is not
    one, or a part is unknown.
    """
    if not is_object(type_, inputs):
        return None
    metadata = metadata_of(inputs)
    name, namespace = metadata.get("name"), metadata.get("namespace") or namespace
    if not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return inputs["apiVersion"].rpartition("/")[0], inputs["kind"], namespace, name


def is_autonamed(inputs: Mapping[str, Any]) -> bool:
    """True if the name was generated because the program set none."""
    annotations = metadata_of(inputs).get("annotations")
    return isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"


def renamed(inputs: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`inputs` with `name` as the name of the object."""
    return {**inputs, "metadata": {**inputs["metadata"], "name": name}}


def fresh_name(name: str) -> str:
    """An automatic name for the object of the resource `name`, which differs from that of a plan."""
    return f"{name}-{secrets.token_hex(4)}"


def with_name(
    type_: str, name: str, urn: str, inputs: dict[str, Any], *, provider: Mapping[str, Any]
) -> dict[str, Any]:
    """Inputs with `metadata.name` filled in and marked as the provider does, where the program gave
    none; `provider` has its inputs.
    """
    if not is_object(type_, inputs):
        return inputs
    metadata = inputs.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or metadata.get("name") or metadata.get("generateName"):
        return inputs
    patterns = replacing_patterns(inputs, provider=provider)
    # Secrets leave no trace: without digests all of them look alike.
    content = to_json(
        mask([values_at(inputs, pattern) for pattern in patterns], urn=urn), digests=False
    )
    digits = hashlib.sha256(f"{urn}\0{json.dumps(content, sort_keys=True)}".encode()).hexdigest()[
        :8
    ]
    annotations = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    return {
        **inputs,
        "metadata": {**metadata, "annotations": annotations, "name": f"{name}-{digits}"},
    }


_IDENTITY: Final = ("metadata.name", "metadata.namespace")
_REPLACING: Final[dict[str, list[str]]] = table("pulumi_engine/providers/kubernetes.toml")
# A changed Secret or ConfigMap is replaced unless its provider has this option.
_MUTABLE: Final = {
    "v1/Secret": ("enableSecretMutable", ("type", "stringData", "data")),
    "v1/ConfigMap": ("enableConfigMapMutable", ("binaryData", "data")),
}


def replacing_patterns(
    inputs: Mapping[str, Any], *, provider: Mapping[str, Any]
) -> tuple[Path, ...]:
    """Patterns of the paths whose change replaces the object with `inputs`, for a provider with the
    inputs `provider`.
    """
    kind = f"{inputs.get('apiVersion')}/{inputs.get('kind')}"
    option, data = _MUTABLE.get(kind, ("", ()))
    mutable = inputs.get("immutable") is not True and is_on(provider, option)
    paths = data if data and not mutable else _REPLACING.get(kind, ())
    return tuple(parse(text) for text in (*_IDENTITY, *paths))


def is_on(provider: Mapping[str, Any], option: str) -> bool:
    """True if the provider with these inputs has `option`."""
    return provider.get(option) in (True, "true")


def replaces(patterns: tuple[Path, ...], path: Path, value: Any) -> bool:
    """True if a change at `path` affects one of `patterns`; `value` is the new value, or the
    removed one.
    """
    return any(
        covers(pattern, path) or (covers(path, pattern) and _holds(value, pattern[len(path) :]))
        for pattern in patterns
    )


def _holds(value: Any, rest: Path) -> bool:
    if not rest:
        return True
    if rest[0] == "*":
        return isinstance(value, list) and any(_holds(item, rest[1:]) for item in value)
    return isinstance(value, dict) and rest[0] in value and _holds(value[rest[0]], rest[1:])
