"""Pods in objects of unknown kinds: each map with a list of containers is a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.engine.fields import UNKNOWN, Field

_LISTS = ("containers", "initContainers", "ephemeralContainers")
# Keys of Argo Workflows, Tekton and Knative Eventing with one container, or a list of containers.
_LOOSE = ("container", "script", "steps", "sidecars", "stepTemplate")
# Fields that only pods, containers and their templates have.
_TELLTALE = ("securityContext", "podSecurityContext", "hostPath", "hostNetwork", "hostPID", "hostIPC", "privileged", "podSpecPatch")


def holds_pods(inputs: Any) -> bool:
    """True if `inputs` contains containers, or an unknown value in place of them."""
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
    """True if `inputs` contains security settings of a pod. In a schema, such fields are maps with a `type`, which do not count."""
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
    """The metadata, spec and loose containers of each pod below `top`. Raises FieldError."""
    spec = top.at("spec")
    owner = (
        spec.at("workflowSpec") if not spec.at("workflowSpec").absent else spec.at("taskSpec") if not spec.at("taskSpec").absent else spec
    )
    loose = tuple(each for map_ in _below(top) for each in _loose(map_))
    if loose:
        yield owner.at("podMetadata"), owner, loose
    for map_ in _below(top):
        if any(_is_list(_raw(map_, name)) for name in _LISTS):
            yield map_.above.at("metadata") if map_.keys else map_, map_, ()


def _below(field: Field) -> Iterator[Field]:
    """All maps at and below `field`, without unknown parts."""
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


def _loose(map_: Field) -> Iterator[Field]:
    for name in _LOOSE:
        if _is_loose(_raw(map_, name)):
            yield from map_.at(name).items()


def _raw(field: Field, name: str) -> Any:
    value = field.value
    return value.get(name) if isinstance(value, dict) else None


def _is_list(value: Any) -> bool:
    return value is UNKNOWN or (isinstance(value, list) and any(isinstance(each, dict) and "image" in each for each in value))


def _is_loose(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(each, dict) and isinstance(each.get("image"), str) for each in items)
