"""The Kubernetes objects that a stack declares, as its program registers them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inferplan.pulumi_engine.providers.kubernetes import is_object
from inferplan.pulumi_engine.recording import Recording, Registration
from inferplan.pulumi_engine.values import UNKNOWN, has_secret, has_unknown
from inferplan.workspace.deployment import Declared
from inferplan.workspace.live import ObjectKey


def declared_objects(recording: Recording, namespace: str) -> Iterator[Declared]:
    """Every object that `recording` declares; `namespace` replaces names that only the cluster
    knows.
    """
    parents = {each.urn: each.parent for each in recording}
    for each, key in registered_objects(recording, namespace):
        yield Declared(
            urn=each.urn,
            type=each.type,
            key=key,
            parents=_chain(each.urn, parents),
            inputs=_without_secrets(each.inputs),
            ignored=each.options.ignore_changes,
        )


def registered_objects(
    recording: Iterable[Registration], namespace: str
) -> Iterator[tuple[Registration, ObjectKey]]:
    """The registrations of Kubernetes objects in `recording` with the objects' keys, without those
    that only patch an object.
    """
    for each in recording:
        if each.custom and not each.read and is_object(each.type, each.inputs):
            yield each, key_of(each, namespace)


def declared_keys(recording: Recording, namespace: str) -> list[ObjectKey]:
    return [key for _, key in registered_objects(recording, namespace)]


def key_of(registration: Registration, namespace: str) -> ObjectKey:
    """The identity of the object that `registration` declares; `namespace` replaces an unknown one."""
    inputs = registration.inputs
    metadata = inputs.get("metadata") or {}
    inside = metadata.get("namespace") or ""
    name = metadata.get("name") or registration.name
    return ObjectKey(
        inputs["apiVersion"], inputs["kind"], namespace if inside is UNKNOWN else inside, str(name)
    )


def _chain(urn: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """The components that `urn` is a child of, the outermost first, without the stack itself."""
    chain: list[str] = []
    while (urn := parents.get(urn, "")) in parents:
        chain.insert(0, urn)
    return tuple(chain)


def _without_secrets(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` if all are known and not secret; otherwise only the identity of the object, and the
    engine reads the rest.
    """
    if _is_readable(inputs):
        return dict(inputs)
    metadata = {
        name: value for name, value in (inputs.get("metadata") or {}).items() if _is_readable(value)
    }
    return {"apiVersion": inputs["apiVersion"], "kind": inputs["kind"], "metadata": metadata}


def _is_readable(value: Any) -> bool:
    """True if all of `value` is known and not secret."""
    return not (has_secret(value) or has_unknown(value))
