"""Nodes of a cluster as the pools of a nodes file, without names, addresses or anything that a person wrote, unless it is asked for."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from inferplan.audit.fleet import KIND
from inferplan.audit.manifest import Object
from inferplan.audit.templates import requests_of
from inferplan.kube.names import vendor_of
from inferplan.tables import table

_LABELS: Final = re.compile("|".join(table("audit/labels.toml")["patterns"]))
# Taints that a condition of the node sets, and that go with it.
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler", "DeletionCandidate")
_ADDRESS: Final = re.compile(r"[0-9]+(?:[.-][0-9]+){3}|@|[0-9a-f]{2}(?::[0-9a-f]{2}){5}|[0-9a-f-]{36}")
_IDENTITY: Final = re.compile(rf"{_ADDRESS.pattern}|(?i:uuid|serial|pci|bus)")
_REPLACED: Final = "not-recorded"
_NOT_RESOURCES: Final = ("attachable-volumes-",)


@dataclass(frozen=True)
class Recorded:
    """The text of a nodes file, the keys of labels and taints whose values are not in it, and devices that it cannot say."""

    text: str
    nodes: int
    omitted_labels: tuple[str, ...]
    replaced_taints: tuple[str, ...]
    omitted_devices: tuple[str, ...] = ()


def record(
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]] = (),
    slices: Iterable[Mapping[str, Any]] = (),
    classes: Iterable[Mapping[str, Any]] = (),
    *,
    labels: Collection[str] = (),
) -> Recorded:
    """The pools of `nodes` with the accelerators that `pods` hold, and the devices of ResourceSlices and the DeviceClasses.

    `labels` are further keys of labels and taints to keep with their values.
    """
    omitted: set[str] = set()
    replaced: set[str] = set()
    devices, unsaid = _devices(slices)
    shapes = {name: _shape(each, labels, omitted, replaced, devices[name]) for each in nodes if (name := str(each["metadata"]["name"]))}
    counts = Counter(shapes.values())
    names: dict[str, str] = {}
    for shape in counts:
        names[shape] = _pool_name(json.loads(shape), names.values())
    pools = [{"name": names[shape], "count": count, **json.loads(shape)} for shape, count in counts.items()]
    load = _load(pods, {node: names[shape] for node, shape in shapes.items()})
    rules = {
        each["metadata"]["name"]: [row["cel"]["expression"] for row in each["spec"].get("selectors") or () if "cel" in row]
        for each in classes
    }
    class_list = [{"name": name, "expressions": expressions} for name, expressions in rules.items()]
    document = {"kind": KIND, "pools": pools, **({"load": load} if load else {}), **({"deviceClasses": class_list} if class_list else {})}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    omissions = (tuple(sorted(each)) for each in (omitted, replaced, unsaid))
    return Recorded(text, len(shapes), *omissions)


def _devices(slices: Iterable[Mapping[str, Any]]) -> tuple[dict[str, list[Object]], set[str]]:
    """The devices of each node, equal ones together and without what identifies one; and those that a nodes file cannot say."""
    found: dict[tuple[str, str], list[Object]] = defaultdict(list)
    unsaid: set[str] = set()
    for each in slices:
        spec = each["spec"]
        for device in spec.get("devices") or ():
            if spec.get("nodeName") and "consumesCounters" not in device:
                found[spec["nodeName"], spec["driver"]].append(device)
            else:
                unsaid.add(f"{spec['driver']}: {'partitions' if spec.get('nodeName') else 'devices of several nodes'}")
    devices: dict[str, list[Object]] = defaultdict(list)
    for (node, driver), several in sorted(found.items()):
        attributes = [device.get("attributes") or {} for device in several]
        values = {
            name: {json.dumps(each[name]) for each in attributes if name in each} for name in {key for each in attributes for key in each}
        }
        unique = {name for name, each in values.items() if len(each) == len(several) > 1 or any(map(_IDENTITY.search, (name, *each)))}
        counts = Counter(_device(device, unique) for device in several)
        devices[node] += [{"driver": driver, "count": count, **json.loads(device)} for device, count in sorted(counts.items())]
    return devices, unsaid


def _device(device: Mapping[str, Any], unique: Collection[str]) -> str:
    known = {name: each for name, each in (device.get("attributes") or {}).items() if name not in unique}
    attributes = {name: each if "version" in each else next(iter(each.values())) for name, each in known.items()}
    capacity = {name: each["value"] for name, each in (device.get("capacity") or {}).items()}
    return json.dumps({key: value for key, value in (("attributes", attributes), ("capacity", capacity)) if value}, sort_keys=True)


def _shape(node: Mapping[str, Any], labels: Collection[str], omitted: set[str], replaced: set[str], devices: list[Object]) -> str:
    """The node without its name, as JSON, so that equal nodes are one pool."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    kept = {}
    for key, value in sorted((metadata.get("labels") or {}).items()):
        if key in labels or (_LABELS.fullmatch(key) and not _ADDRESS.search(str(value))):
            kept[key] = str(value)
        elif not key.endswith("/hostname"):
            omitted.add(key)
    taints = []
    for each in spec.get("taints") or ():
        if str(each["key"]).startswith(_PASSING):
            continue
        value = str(each.get("value") or "")
        if value and each["key"] not in labels and (not _LABELS.fullmatch(each["key"]) or _ADDRESS.search(value)):
            replaced.add(each["key"])
            value = _REPLACED
        taints.append({"key": each["key"], **({"value": value} if value else {}), "effect": each["effect"]})
    resources = (node.get("status") or {}).get("allocatable") or {}
    allocatable = {key: str(value) for key, value in sorted(resources.items()) if not key.startswith(_NOT_RESOURCES)}
    shape: Object = {"labels": kept, "taints": taints, "allocatable": allocatable, "devices": devices}
    if spec.get("unschedulable"):
        shape["unschedulable"] = True
    return json.dumps({key: value for key, value in shape.items() if value}, sort_keys=True)


def _pool_name(shape: Object, taken: Collection[str]) -> str:
    resources = shape.get("allocatable", {})
    vendor = next((vendor_of(each) for each in resources if vendor_of(each) and resources[each] != "0"), "cpu")
    product = shape.get("labels", {}).get("node.kubernetes.io/instance-type", vendor)
    name = re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-")[:40] or vendor
    numbers = (f"{name}-{index}" if index > 1 else name for index in range(1, len(taken) + 2))
    return next(each for each in numbers if each not in taken)


def _load(pods: Iterable[Mapping[str, Any]], pools: Mapping[str, str]) -> list[Object]:
    held: Counter[tuple[str, str]] = Counter()
    for each in pods:
        pool = pools.get(str((each.get("spec") or {}).get("nodeName")))
        requests = requests_of(each.get("spec") or {})
        if pool and requests and (each.get("status") or {}).get("phase") in ("Pending", "Running"):
            held[pool, json.dumps(requests, sort_keys=True)] += 1
    return [{"pool": pool, "pods": count, "requests": json.loads(requests)} for (pool, requests), count in sorted(held.items())]
