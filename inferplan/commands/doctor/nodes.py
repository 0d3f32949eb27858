"""Checks of existing nodes: labels, readiness, taints, sizes, devices and drivers of accelerators,
and huge pages.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inferplan.commands.doctor.cluster import ExaminedCluster, PodsOf
from inferplan.commands.doctor.findings import Finding, error, ok, unknown, warning
from inferplan.components.handles import NodeTarget
from inferplan.components.nodes.pool import Pool
from inferplan.components.platforms.node_counts import shared_nodes
from inferplan.images.catalogue import facts_of
from inferplan.kube import devices
from inferplan.kube.names import HUGEPAGES
from inferplan.kube.objects import is_true
from inferplan.kube.quantity import amount, bytes_of, cpu_quantity, millicores_of, size_quantity

# A smaller difference is what the kubelet of another distribution reserves.
_TOLERANCE = 0.95
_PAGE = 2 * 2**20
Node = Mapping[str, Any]


def pools_of(cluster: ExaminedCluster) -> Iterator[tuple[str, Pool, NodeTarget, list[Node]]]:
    nodes = cluster.nodes()
    for name, pool in cluster.settings.node_pools.items():
        if not pool.creates_nodes:
            target = pool.target(name)
            yield (
                name,
                pool,
                target,
                [each for each in nodes if target.node_selector.items() <= _labels(each).items()],
            )


def check_labels(cluster: ExaminedCluster) -> Iterator[Finding]:
    for name, pool, target, nodes in pools_of(cluster):
        label = ",".join(f"{key}={value}" for key, value in target.node_selector.items())
        if len(nodes) < pool.min_nodes:
            candidates = _candidates(cluster, target, nodes)
            what = " ".join(candidates[: pool.min_nodes - len(nodes)]) or "NODE"
            remedy = f"{cluster.kubectl} label node {what} {label.replace(',', ' ')}"
            yield error(
                f"pool {name}: {len(nodes)} of {pool.min_nodes} nodes have the label {label}",
                remedy,
            )
        for node in nodes:
            if not is_true(node, "Ready"):
                yield error(
                    f"pool {name}: node {_name(node)} is not Ready",
                    f"{cluster.kubectl} describe node {_name(node)}",
                )
            elif node["spec"].get("unschedulable"):
                yield error(
                    f"pool {name}: node {_name(node)} is cordoned and takes no pods",
                    f"{cluster.kubectl} uncordon {_name(node)}",
                )
        if len(nodes) >= pool.min_nodes and all(
            is_true(each, "Ready") and not each["spec"].get("unschedulable") for each in nodes
        ):
            yield ok(
                f"pool {name}: {len(nodes)} nodes have the label {label}, and {pool.min_nodes} are"
                " declared"
            )


def check_taints(cluster: ExaminedCluster) -> Iterator[Finding]:
    for name, _, target, nodes in pools_of(cluster):
        tolerated = {(each.key, each.value, each.effect) for each in target.taints}
        foreign: dict[tuple[str, str, str], list[str]] = {}
        for node in nodes:
            for taint in node["spec"].get("taints", ()):
                key = (taint["key"], taint.get("value", ""), taint["effect"])
                # Kubernetes sets and removes its own taints, for example on a node that is not
                # Ready.
                if (
                    key not in tolerated
                    and key[2] != "PreferNoSchedule"
                    and not key[0].startswith("node.kubernetes.io/")
                ):
                    foreign.setdefault(key, []).append(_name(node))
        for (key, value, effect), names in foreign.items():
            declared = "; ".join(
                f"{{key: {each.key}, value: {each.value!r}, effect: {each.effect}}}"
                for each in target.taints
            )
            wanted = f"{{key: {key}, value: {value!r}, effect: {effect}}}"
            yield error(
                f"pool {name}: pods do not tolerate the taint {key}={value}:{effect} of"
                f" {', '.join(names)}; they tolerate {declared or 'none'}",
                f"write in the stack file, nodePools.{name}: taints: [{wanted}]",
            )
        if nodes and not foreign:
            yield ok(f"pool {name}: pods tolerate every taint of its nodes")


def check_devices(cluster: ExaminedCluster) -> Iterator[Finding]:
    for name, _, target, nodes in pools_of(cluster):
        accelerator = target.accelerator
        if accelerator is None:
            continue
        driver, offered = accelerator.device_class, Counter[str]()
        if driver is not None:
            slices = cluster.live.objects(devices.API, "ResourceSlice").values()
            offered = devices.published(slices, driver)
        short = {
            _name(each): offered[_name(each)]
            if driver
            else int(_allocatable(each, accelerator.resource))
            for each in nodes
        }
        whole = target.capacity.accelerators // (accelerator.sharers if driver else 1)
        short = {node: count for node, count in short.items() if count < whole}
        for node, count in short.items():
            message = f"pool {name}: node {node} offers {count} of {whole} {accelerator.resource}"
            if count:
                yield error(
                    f"{message}; look for a failed device or driver",
                    f"{cluster.kubectl} describe node {node}",
                )
            elif driver is not None:
                yield error(
                    f"{message}; its DRA driver is not running",
                    f"install the DRA driver that publishes {driver}, or set"
                    f" nodePools.{name}.devices: devicePlugin in the stack file",
                )
            else:
                install = (
                    cluster.remedy("devicePlugins", accelerator.vendor.name)
                    or f"install the device plugin for {accelerator.resource}"
                )
                yield error(f"{message}; its device plugin is not running", install)
        if nodes and not short:
            yield ok(f"pool {name}: every node offers {whole} {accelerator.resource}")
        if not nodes:
            yield unknown(
                f"pool {name}: no node to ask for {accelerator.resource}; label its nodes first"
            )


def check_drivers(cluster: ExaminedCluster) -> Iterator[Finding]:
    """Compare the driver's version on each node, as its vendor's feature discovery labels it, with
    what the images of the pool need.
    """
    for name, _, target, nodes in pools_of(cluster):
        images = {each["image"] for pods in _pods_on(cluster, target) for each in pods.containers}
        needed = {
            facts.image: facts.driver
            for image in images
            if (facts := facts_of(image)) is not None and facts.driver
        }
        if target.accelerator is None or not needed:
            continue
        image = max(sorted(needed), key=lambda each: _version(needed[each]))
        vendor = target.accelerator.vendor
        labels, operator = vendor.driver_labels, vendor.discovery
        drivers = {
            _name(node): next((text for label in labels if (text := _labels(node).get(label))), "")
            for node in nodes
        }
        old = {
            node: text
            for node, text in drivers.items()
            if text and _version(text) < _version(needed[image])
        }
        if old:
            listed = ", ".join(f"{node} {text}" for node, text in sorted(old.items()))
            remedy = (
                f"update the driver of these nodes to {needed[image]} or later, or name an image"
                " for their driver in the models"
            )
            yield error(
                f"pool {name}: {image} needs driver {needed[image]}, and these nodes have an older"
                f" one: {listed}",
                remedy,
            )
        if unlabelled := [node for node, text in drivers.items() if not text]:
            gap = (
                f"{', '.join(unlabelled)} has no label with the driver's version ({labels[0]}), and"
                f" {image} needs {needed[image]}"
            )
            yield unknown(f"pool {name}: {gap}; {operator} adds the label")
        elif nodes and not old:
            yield ok(f"pool {name}: every node has the driver that {image} needs ({needed[image]})")


def check_sizes(cluster: ExaminedCluster) -> Iterator[Finding]:
    for name, _, target, nodes in pools_of(cluster):
        pages = _largest(cluster, target, HUGEPAGES)
        small = [each for each in nodes if _bytes(each, HUGEPAGES) < pages]
        if small:
            count = -(-max(pages, target.capacity.hugepages_2mi_bytes) // _PAGE)
            yield error(
                f"pool {name}: a pod requests {size_quantity(pages)} of {HUGEPAGES}, and"
                f" {_name(small[0])} offers {size_quantity(_bytes(small[0], HUGEPAGES))}",
                f"run on each node: echo vm.nr_hugepages={count} | sudo tee"
                " /etc/sysctl.d/90-hugepages.conf && sudo sysctl --system && sudo systemctl"
                " restart kubelet",
            )
        elif pages and nodes:
            yield ok(
                f"pool {name}: every node offers {size_quantity(pages)} of {HUGEPAGES}, the most"
                " that a pod requests"
            )
        declared = target.capacity
        tight = [
            each
            for each in nodes
            if _bytes(each, "memory") < declared.memory_bytes * _TOLERANCE
            or _millicores(each) < declared.cpu_millicores * _TOLERANCE
        ]
        if tight:
            cpu, memory = (
                cpu_quantity(_millicores(tight[0])),
                size_quantity(_bytes(tight[0], "memory")),
            )
            planned = (
                f"{cpu_quantity(declared.cpu_millicores)} CPU and"
                f" {size_quantity(declared.memory_bytes)} of memory"
            )
            cards = f", accelerators: {declared.accelerators}" if target.accelerator else ""
            pages_text = (
                f", hugepages2Mi: {size_quantity(_bytes(tight[0], HUGEPAGES))}"
                if _bytes(tight[0], HUGEPAGES)
                else ""
            )
            yield warning(
                f"pool {name}: {_name(tight[0])} offers {cpu} CPU and {memory} of memory, and the"
                f" stack plans with {planned}",
                f"write in the stack file, nodePools.{name}: instanceType: {{cpu: '{cpu}', memory:"
                f" {memory}{cards}{pages_text}}}",
            )
        elif nodes:
            yield ok(f"pool {name}: every node has the CPU and memory that the stack plans with")


def check_room(cluster: ExaminedCluster) -> Iterator[Finding]:
    """Compare what nodes offer that every pod shares with all requests, also of the cluster's own
    pods, a surge pod of the gateway and a preheat.
    """
    if (shared := shared_nodes(cluster.settings)) is None:
        yield ok("models share no nodes with other pods, or the gateway has its own nodes")
        return
    name, _, rows = shared
    target = cluster.settings.node_pools[name].target(name)
    others = [
        each
        for each in cluster.nodes()
        if not target.node_selector.items() <= _labels(each).items()
    ]
    nodes = [each for each in cluster.nodes() if each not in others]
    if not nodes or any(not each["spec"].get("taints") for each in others):
        yield ok(f"pool {name}: other pods can run on nodes outside of it")
        return
    foreign = [
        (container.get("resources") or {}).get("requests") or {}
        for pod in cluster.live.objects("v1", "Pod").values()
        if pod["metadata"]["namespace"] != cluster.settings.namespace
        and pod["spec"].get("nodeName") in {_name(each) for each in nodes}
        for container in pod["spec"]["containers"]
    ]
    parts = {what: int(each["cpu"]) for what, each in rows.items() if what != "DNS"}
    parts["the cluster's own pods"] = sum(millicores_of(each.get("cpu", "0")) for each in foreign)
    offered, total = sum(map(_millicores, nodes)), sum(parts.values())
    listed = ", ".join(f"{what} {cpu_quantity(each)}" for what, each in parts.items() if each)
    sums = f"pool {name}: {len(nodes)} nodes offer {cpu_quantity(offered)} CPU, requests are {cpu_quantity(total)}"
    if total > offered:
        yield warning(
            f"{sums} ({listed}), so updates or preheats wait for room",
            "set resources.cpu of the models, or add a node",
        )
    else:
        yield ok(f"{sums} ({listed})")


def _candidates(cluster: ExaminedCluster, target: NodeTarget, nodes: Sequence[Node]) -> list[str]:
    """Nodes outside the pool that look like its hardware: they offer its devices, or carry its
    vendor's labels.
    """
    accelerator, names = target.accelerator, {_name(each) for each in nodes}
    if accelerator is None:
        return []
    alike = (
        _name(each)
        for each in cluster.nodes()
        if int(_allocatable(each, accelerator.resource))
        or accelerator.labels.items() & _labels(each).items()
    )
    return sorted(set(alike) - names)


def _largest(cluster: ExaminedCluster, target: NodeTarget, resource: str) -> int:
    """The most of `resource` that one pod on the nodes of `target` requests, in bytes."""
    return max(
        (
            sum(int(amount(each) or 0) for each in pods.requested(resource))
            for pods in _pods_on(cluster, target)
        ),
        default=0,
    )


def _pods_on(cluster: ExaminedCluster, target: NodeTarget) -> Iterator[PodsOf]:
    return (
        each
        for each in cluster.pods
        if target.node_selector.items() <= (each.spec.get("nodeSelector") or {}).items()
    )


def _version(text: str) -> tuple[int, ...]:
    """The numbers that `text` starts with: 1.24.1-17 is (1, 24, 1)."""
    return tuple(int(each) for each in re.split(r"[^0-9.]", text)[0].split(".") if each)


def _allocatable(node: Node, resource: str) -> str:
    return str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def _bytes(node: Node, resource: str) -> int:
    return bytes_of(_allocatable(node, resource))


def _millicores(node: Node) -> int:
    return millicores_of(_allocatable(node, "cpu"))


def _labels(node: Node) -> Mapping[str, str]:
    return node["metadata"].get("labels", {})


def _name(node: Node) -> str:
    return node["metadata"]["name"]
