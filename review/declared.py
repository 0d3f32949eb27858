"""The resources of a stack before and after a change, as inputs: what capacity, cost and rollout are told from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from review.preview import Preview, Step

Side = Literal["before", "after"]

_BEFORE = frozenset({"same", "read", "update", "replace", "delete", "discard"})
_GONE = frozenset({"delete", "discard"})
_SUFFIXES = {"": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_TOO_LARGE = 10**24  # more than any quantity; sums stay exact below it
_SUFFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One resource of one side."""

    type: str
    urn: str
    name: str
    inputs: dict[str, Any]


def declared(preview: Preview, side: Side) -> Iterator[Declared]:
    """The resources of `preview` on one side. A digest lists no unchanged ones; see `whole`."""
    for step in preview.steps:
        state = _state(step, side)
        if state is not None:
            yield Declared(type=step.type, urn=step.urn, name=step.name, inputs=state)


def whole(preview: Preview) -> bool:
    """Whether every resource of the stack is in `preview`, so that sums mean something."""
    return preview.form == "events" and not preview.incomplete


def _state(step: Step, side: Side) -> dict[str, Any] | None:
    if side == "before":
        if step.op not in _BEFORE:
            return None
        # In the first plan of a stack the old state of an unchanged resource may be left out.
        state = step.old or (step.new if step.op == "same" else None)
    else:
        state = None if step.op in _GONE else (step.new or step.old)
    return None if state is None else state.inputs or {}


def amount(quantity: Any) -> Decimal | None:
    """A Kubernetes quantity (`16Gi`, `500m`, 8) as a number, None for what is none, such as a computed value."""
    if isinstance(quantity, Decimal):
        return quantity if quantity.is_finite() else None
    if isinstance(quantity, bool):
        return None
    if isinstance(quantity, int | float):
        return Decimal(str(quantity))
    if not isinstance(quantity, str):
        return None
    number = quantity.rstrip("KMGTPikm")
    try:
        value = Decimal(number) * _SUFFIXES[quantity[len(number) :]]
    except (ArithmeticError, KeyError):
        return None
    return value if value.is_finite() and abs(value) < _TOO_LARGE else None


def mapping(value: Any, *path: str) -> dict[str, Any]:
    """The map at `path` inside `value`, {} where there is none."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def number(value: Any, default: int) -> int:
    """`value` as a whole number, `default` where it is none or not known."""
    read = amount(value)
    return default if read is None else int(read)


LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"


def with_templates(resources: Iterable[Declared]) -> Iterator[Declared]:
    """`resources`, node groups completed by what only their launch template says: the instance type and the disk.

    The template's id is not known before up, so that a group and its template are brought together by the label of their pool.
    """
    kept = list(resources)
    templates = {label: each.inputs for each in kept if each.type == LAUNCH_TEMPLATE for label in _tags(each.inputs)}
    for each in kept:
        template = next((templates[tag] for tag in mapping(each.inputs, "labels").items() if _hashable(tag) and tag in templates), None)
        if each.type != NODE_GROUP or template is None:
            yield each
            continue
        added: dict[str, Any] = {}
        if not each.inputs.get("instanceTypes") and isinstance(template.get("instanceType"), str):
            added["instanceTypes"] = [template["instanceType"]]
        if each.inputs.get("diskSize") is None and (size := _disk_of(template)) is not None:
            added |= {"diskSize": size, "diskType": _disk_kind(template)}
        yield replace(each, inputs=each.inputs | added)


def _tags(template: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in _listed(template, "tagSpecifications"):
        for tag in mapping(each, "tags").items():
            # A name is no pool: only tags that are labels too, which hold a slash, bring the two together.
            if "/" in tag[0] and isinstance(tag[1], str):
                yield tag


def _listed(value: dict[str, Any], key: str) -> list[Any]:
    items = value.get(key)
    return items if isinstance(items, list) else []


def _hashable(tag: tuple[str, Any]) -> bool:
    return isinstance(tag[1], str)


def _disk_of(template: dict[str, Any]) -> Decimal | None:
    sizes = [amount(mapping(each, "ebs").get("volumeSize")) for each in _listed(template, "blockDeviceMappings")]
    known = [size for size in sizes if size is not None]
    return sum(known, Decimal(0)) if known else None


def _disk_kind(template: dict[str, Any]) -> str:
    """The one kind of the template's volumes; several kinds are none that has a price."""
    kinds = {mapping(each, "ebs").get("volumeType") or "gp2" for each in _listed(template, "blockDeviceMappings")}
    return "/".join(sorted(map(str, kinds)))
