"""Pods inside kinds that no table names: a map with a list of containers is a pod, wherever an operator keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.engine.fields import UNKNOWN, Field

_LISTS = ("containers", "initContainers", "ephemeralContainers")
# Where Argo Workflows, Tekton and Knative Eventing keep containers outside a pod's lists: one, or a list of them.
_LOOSE = ("container", "script", "steps", "sidecars", "stepTemplate")
# Fields that only a pod, a container or what becomes one has.
_TELLTALE = ("securityContext", "podSecurityContext", "hostPath", "hostNetwork", "hostPID", "hostIPC", "privileged", "podSpecPatch")


def holds_pods(inputs: Any) -> bool:
    """True if `inputs` contains containers, or an unknown part that could."""
    waiting = [inputs]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            if any(_is_list(here.get(name)) for name in _LISTS) or any(_is_loose(here.get(name)) for name in _LOOSE):
                return True
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here
    return False


def holds_settings_of_pods(inputs: Any) -> bool:
    """True if `inputs` contains a field that decides what a pod may do. A schema of a kind describes such fields, as maps with a type."""
    waiting = [inputs]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            if any(name in here and not (isinstance(here[name], dict) and "type" in here[name]) for name in _TELLTALE):
                return True
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here
    return False


def pods_at(top: Field) -> Iterator[tuple[Field, Field, tuple[Field, ...]]]:
    """Metadata, spec and loose containers of each pod below `top`. Loose ones belong to the outermost map with settings of pods.

    Raises FieldError.
    """
    spec = top.at("spec")
    owner = (
        spec.at("workflowSpec") if not spec.at("workflowSpec").absent else spec.at("taskSpec") if not spec.at("taskSpec").absent else spec
    )
    loose = tuple(each for found in _below(top) for each in _loose(found))
    if loose:
        yield owner.at("podMetadata"), owner, loose
    for found in _below(top):
        if any(_is_list(_raw(found, name)) for name in _LISTS):
            yield found.above.at("metadata") if found.keys else found, found, ()


def _below(field: Field) -> Iterator[Field]:
    """Every map at and below `field`; unknown parts are left to the caller."""
    waiting = [field]
    while waiting:
        here = waiting.pop()
        if here.unknown:
            continue
        value = here.value
        if isinstance(value, dict):
            yield here
            waiting += (each for _name, each in here.entries())
        elif isinstance(value, list):
            waiting += here.each()


def _loose(found: Field) -> Iterator[Field]:
    for name in _LOOSE:
        if _is_loose(_raw(found, name)):
            place = found.at(name)
            yield from place.each() if isinstance(place.value, list) else (place,)


def _raw(field: Field, name: str) -> Any:
    value = field.value
    return value.get(name) if isinstance(value, dict) else None


def _is_list(value: Any) -> bool:
    return value is UNKNOWN or (isinstance(value, list) and any(isinstance(each, dict) and "image" in each for each in value))


def _is_loose(value: Any) -> bool:
    listed = value if isinstance(value, list) else [value]
    return any(isinstance(each, dict) and isinstance(each.get("image"), str) for each in listed)
