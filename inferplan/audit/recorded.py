"""Nodes of a cluster as the pools of a nodes file, without names, addresses or anything that a
person wrote, unless it is asked for.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from inferplan.audit.fleet import KIND, read_fleet
from inferplan.audit.manifest import InputError, Object
from inferplan.audit.templates import requests_of
from inferplan.kube.field_owners import NODE_TAINTS
from inferplan.kube.names import free_name, label_of, vendor_of
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import amount
from inferplan.tables import table

_LABELS: Final = re.compile("|".join(table("audit/labels.toml")["patterns"]))
_ADDRESS: Final = re.compile(
    r"[0-9]+(?:[.-][0-9]+){3}|@|[0-9a-f]{2}(?::[0-9a-f]{2}){5}|[0-9a-f-]{36}"
)
_IDENTITY: Final = re.compile(rf"{_ADDRESS.pattern}|(?i:uuid|serial|pci|bus)")
_REPLACED: Final = "not-recorded"
_NOT_RESOURCES: Final = "attachable-volumes-"


@dataclass(frozen=True)
class Recorded:
    """The text of a nodes file, the keys of labels and taints whose values are not in it, and
    devices that it cannot say.

    `errors` are those for which an audit rejects the file.
    """

    text: str
    nodes: int
    omitted_labels: tuple[str, ...]
    replaced_taints: tuple[str, ...]
    omitted_devices: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def record(
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]] = (),
    slices: Iterable[Mapping[str, Any]] = (),
    classes: Iterable[Mapping[str, Any]] = (),
    *,
    labels: Collection[str] = (),
) -> Recorded:
    """The pools of `nodes` with the accelerators that `pods` hold, and the devices of
    ResourceSlices and the DeviceClasses.

    `labels` are further keys of labels and taints to keep with their values.
    """
    omitted: set[str] = set()
    replaced: set[str] = set()
    devices, unsaid = _devices(slices)
    shapes = {
        name: _shape(each, labels, omitted, replaced, devices[name])
        for each in nodes
        if (name := str(each["metadata"]["name"]))
    }
    names: dict[str, str] = {}
    for shape in dict.fromkeys(shapes.values()):
        names[shape] = _pool_name(json.loads(shape), names.values())
    pools = [
        {"name": names[shape], "count": count, **json.loads(shape)}
        for shape, count in Counter(shapes.values()).items()
    ]
    load = _load(pods, {node: names[shape] for node, shape in shapes.items()})
    rules = {each["metadata"]["name"]: each["spec"].get("selectors") or () for each in classes}
    listed = [
        {"name": name, "expressions": [row["cel"]["expression"] for row in rows if "cel" in row]}
        for name, rows in rules.items()
    ]
    document = _written(kind=KIND, pools=pools, load=load, deviceClasses=listed)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return Recorded(
        text,
        len(shapes),
        *(tuple(sorted(each)) for each in (omitted, replaced, unsaid)),
        errors=_errors(text),
    )


def _errors(text: str) -> tuple[str, ...]:
    try:
        read_fleet(text.encode(), "line")
    except InputError as error:
        return error.errors
    return ()


def _written(**fields: Any) -> Object:
    """The fields that say something."""
    return {key: value for key, value in fields.items() if value}


def _devices(slices: Iterable[Mapping[str, Any]]) -> tuple[dict[str, list[Object]], set[str]]:
    """The devices of each node, equal ones together and without what identifies one; and those that
    a nodes file cannot say.
    """
    by_driver: dict[tuple[str, str], list[Object]] = defaultdict(list)
    unsaid: set[str] = set()
    for spec, device in (
        (each["spec"], device) for each in slices for device in each["spec"].get("devices") or ()
    ):
        if spec.get("nodeName") and "consumesCounters" not in device:
            by_driver[spec["nodeName"], spec["driver"]].append(device)
        else:
            unsaid.add(
                f"{spec['driver']}:"
                f" {'partitions' if spec.get('nodeName') else 'devices of several nodes'}"
            )
    devices: dict[str, list[Object]] = defaultdict(list)
    for (node, driver), several in sorted(by_driver.items()):
        values: dict[str, list[str]] = defaultdict(list)
        for name, value in (
            (name, value)
            for device in several
            for name, value in (device.get("attributes") or {}).items()
        ):
            values[name].append(json.dumps(value))
        unique = {
            name
            for name, each in values.items()
            if len({*each}) == len(several) > 1 or any(map(_IDENTITY.search, (name, *each)))
        }
        counts = Counter(_device(device, unique) for device in several)
        devices[node] += [
            {"driver": driver, "count": count, **json.loads(device)}
            for device, count in sorted(counts.items())
        ]
    return devices, unsaid


def _device(device: Mapping[str, Any], unique: Collection[str]) -> str:
    known = {
        name: each for name, each in (device.get("attributes") or {}).items() if name not in unique
    }
    attributes = {
        name: each if "version" in each else next(iter(each.values()))
        for name, each in known.items()
    }
    capacity = {name: each["value"] for name, each in (device.get("capacity") or {}).items()}
    return json.dumps(_written(attributes=attributes, capacity=capacity), sort_keys=True)


def _shape(
    node: Mapping[str, Any],
    labels: Collection[str],
    omitted: set[str],
    replaced: set[str],
    devices: list[Object],
) -> str:
    """The node without its name, as JSON, so that equal nodes are one pool."""

    def is_kept(key: str, value: str) -> bool:
        return key in labels or (bool(_LABELS.fullmatch(key)) and not _ADDRESS.search(value))

    spec, all_labels = (
        mapping(node, "spec"),
        {key: str(value) for key, value in mapping(node, "metadata", "labels").items()},
    )
    kept = {key: value for key, value in all_labels.items() if is_kept(key, value)}
    omitted.update(key for key in all_labels if key not in kept and not key.endswith("/hostname"))
    taints = []
    for each in (
        each for each in spec.get("taints") or () if not str(each["key"]).startswith(NODE_TAINTS)
    ):
        value = str(each.get("value") or "")
        if value and not is_kept(each["key"], value):
            replaced.add(each["key"])
            value = _REPLACED
        taints.append(_written(key=each["key"], value=value, effect=each["effect"]))
    resources = mapping(node, "status", "allocatable").items()
    allocatable = {
        key: str(value)
        for key, value in resources
        if not key.startswith(_NOT_RESOURCES) and amount(value) is not None
    }
    cordoned = bool(spec.get("unschedulable"))
    fields = _written(
        labels=kept, taints=taints, allocatable=allocatable, devices=devices, unschedulable=cordoned
    )
    return json.dumps(fields, sort_keys=True)


def _pool_name(shape: Object, taken: Collection[str]) -> str:
    resources = shape.get("allocatable", {})
    vendor = next(
        (vendor_of(each) for each in resources if vendor_of(each) and resources[each] != "0"), "cpu"
    )
    product = shape.get("labels", {}).get("node.kubernetes.io/instance-type", vendor)
    return free_name(label_of(product) or vendor, taken)


def _load(pods: Iterable[Mapping[str, Any]], pools: Mapping[str, str]) -> list[Object]:
    counts: Counter[tuple[str, str]] = Counter()
    for each in pods:
        spec = mapping(each, "spec")
        pool, requests = pools.get(str(spec.get("nodeName"))), requests_of(spec)
        if pool and requests and mapping(each, "status").get("phase") in ("Pending", "Running"):
            counts[pool, json.dumps(requests, sort_keys=True)] += 1
    return [
        {"pool": pool, "pods": count, "requests": json.loads(requests)}
        for (pool, requests), count in sorted(counts.items())
    ]
