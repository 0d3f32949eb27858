"""Pods in objects of unknown kinds: each map with a list of containers is a pod."""

from collections.abc import Iterator
from typing import Any

from inferplan.policies.engine.fields import UNKNOWN, Field, maps_in
from inferplan.policies.engine.resource import Resource

_LISTS = ("containers", "initContainers", "ephemeralContainers")
# Keys of Argo Workflows, Tekton and Knative Eventing with one container, or a list of containers.
_LOOSE = ("container", "script", "steps", "sidecars", "stepTemplate")
# Fields that only pods, containers and their templates have.
_TELLTALE = (
    "securityContext",
    "podSecurityContext",
    "hostPath",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "privileged",
    "podSpecPatch",
)


def holds_pods(resource: Resource) -> bool:
    """True if a resource contains containers, or an unknown value in place of them."""
    return not resource.outline.keys.isdisjoint((*_LISTS, *_LOOSE)) and any(
        _has_lists(each) or any(_is_loose(each.get(name)) for name in _LOOSE)
        for each in maps_in(resource.inputs)
    )


def holds_settings_of_pods(resource: Resource) -> bool:
    """True if a resource contains security settings of a pod. In a schema, such fields are maps with
    a `type`, which do not count.
    """
    settings = (each.raw for each in resource.below(_TELLTALE))
    return any(not (isinstance(each, dict) and "type" in each) for each in settings)


def pods_of(resource: Resource) -> Iterator[tuple[Field, Field, tuple[Field, ...]]]:
    """The metadata, spec and loose containers of each pod of a resource. Raises FieldError."""
    spec = resource.at("spec")
    owner = next(
        (each for each in map(spec.at, ("workflowSpec", "taskSpec")) if not each.absent), spec
    )
    if not holds_pods(resource):
        return
    maps = tuple(_maps_below(resource.root))
    loose = tuple(
        each
        for map_ in maps
        for name in _LOOSE
        if _is_loose(map_.value.get(name))
        for each in map_.at(name).items()
    )
    if loose:
        yield owner.at("podMetadata"), owner, loose
    for map_ in maps:
        if _has_lists(map_.value):
            yield map_.above.at("metadata") if map_.keys else map_, map_, ()


def _maps_below(field: Field) -> Iterator[Field]:
    """All maps at and below `field`, without unknown parts."""
    waiting = [field]
    while waiting:
        here = waiting.pop()
        if here.unknown:
            continue
        if isinstance(here.value, dict):
            yield here
            waiting += (each for _name, each in here.entries())
        elif isinstance(here.value, list):
            waiting += here.each()


def _has_lists(map_: dict[str, Any]) -> bool:
    return any(_is_list(map_.get(name)) for name in _LISTS)


def _is_list(value: Any) -> bool:
    return value is UNKNOWN or (
        isinstance(value, list)
        and any(isinstance(each, dict) and "image" in each for each in value)
    )


def _is_loose(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(each, dict) and isinstance(each.get("image"), str) for each in items)
