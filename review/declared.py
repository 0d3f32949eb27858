"""The inputs of a stack's resources before and after a change, from which capacity, cost and rollouts are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from kube.field_owners import SCALER_BOUNDS
from kube.paths import mapping
from kube.quantity import amount, number
from review.node_pools import NODE_GROUP, with_node_pools
from review.pods import PodSet, pod_sets
from review.preview import Preview, Side, StepSummary

When = Literal["before", "after"]

_BEFORE = frozenset({"same", "read", "update", "replace", "delete", "discard"})
_GONE = frozenset({"delete", "discard"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One resource of one side."""

    type: str
    urn: str
    name: str
    inputs: dict[str, Any]
    counted: tuple[PodSet, ...] | None = None
    """Its pods, if they were counted when its inputs were read."""

    @property
    def pods(self) -> tuple[PodSet, ...]:
        """The pods that it keeps running."""
        return tuple(pod_sets(self.type, self.urn, self.name, self.inputs)) if self.counted is None else self.counted


def declared(preview: Preview, side: When) -> Iterator[Declared]:
    """The resources of `preview` on one side. A digest lists no unchanged ones; see `whole`."""
    for step in preview.steps:
        state = _state(step, side)
        if state is not None:
            yield Declared(type=step.type, urn=step.urn, name=step.name, inputs=state.inputs, counted=state.pods)


def whole(preview: Preview) -> bool:
    """True if `preview` lists every resource of the stack, so that sums are complete."""
    return preview.form == "events" and not preview.incomplete


def _state(step: StepSummary, side: When) -> Side | None:
    if side == "before":
        if step.op not in _BEFORE:
            return None
        # In the first plan of a stack the old state of an unchanged resource may be left out.
        return step.old or (step.new if step.op == "same" else None)
    return None if step.op in _GONE else step.side


LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


def with_templates(resources: Iterable[Declared]) -> Iterator[Declared]:
    """`resources` with NodePools as node groups, and node groups completed by the instance type and the disk of their launch template.

    The template's id is unknown before the update, so a group and its template are matched by the label of their pool.
    """
    everything = list(with_node_pools(_with_ranges(resources)))
    templates = {label: each.inputs for each in everything if each.type == LAUNCH_TEMPLATE for label in _tags(each.inputs)}
    for each in everything:
        template = next((templates[tag] for tag in mapping(each.inputs, "labels").items() if _hashable(tag) and tag in templates), None)
        if each.type != NODE_GROUP or template is None:
            yield each
            continue
        extra: dict[str, Any] = {}
        if not each.inputs.get("instanceTypes") and isinstance(template.get("instanceType"), str):
            extra["instanceTypes"] = [template["instanceType"]]
        if each.inputs.get("diskSize") is None and (size := _disk_of(template)) is not None:
            extra |= {"diskSize": size, "diskType": _disk_kind(template)}
        yield replace(each, inputs=each.inputs | extra)


def _with_ranges(resources: Iterable[Declared]) -> Iterator[Declared]:
    """`resources`, the pods of each workload counted from the least to the most replicas that its scaler allows."""
    everything = list(resources)
    ranges = {}
    for each in everything:
        if (fields := SCALER_BOUNDS.get(each.type.rpartition(":")[2])) is not None:
            spec = mapping(each.inputs, "spec")
            target = mapping(spec, "scaleTargetRef")
            least, most = (number(spec.get(field), default) for field, default in fields)
            ranges[f"{target.get('kind') or 'Deployment'}/{target.get('name')}"] = least, most
    for each in everything:
        scaled = ranges and any(pods.owner in ranges for pods in each.pods)
        yield replace(each, counted=tuple(pods.scaled(*ranges[pods.owner]) for pods in each.pods)) if scaled else each


def _tags(template: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in _listed(template, "tagSpecifications"):
        for tag in mapping(each, "tags").items():
            # Only tags that are also labels, which have a slash, name a pool.
            if "/" in tag[0] and isinstance(tag[1], str):
                yield tag


def _listed(value: dict[str, Any], key: str) -> list[Any]:
    items = value.get(key)
    return items if isinstance(items, list) else []


def _hashable(tag: tuple[str, Any]) -> bool:
    return isinstance(tag[1], str)


def _disk_of(template: dict[str, Any]) -> Decimal | None:
    sizes = [amount(mapping(each, "ebs").get("volumeSize")) for each in _listed(template, "blockDeviceMappings")]
    numbers = [size for size in sizes if size is not None]
    return sum(numbers, Decimal(0)) if numbers else None


def _disk_kind(template: dict[str, Any]) -> str:
    """The one kind of the template's volumes; several kinds are none that has a price."""
    kinds = {mapping(each, "ebs").get("volumeType") or "gp2" for each in _listed(template, "blockDeviceMappings")}
    return "/".join(sorted(map(str, kinds)))
