"""Monitors of the Prometheus Operator that select no object with their port."""

from collections.abc import Iterator
from typing import Final

from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest
from inferplan.audit.templates import containers, select
from inferplan.kube.paths import mapping, text_of
from inferplan.kube.selectors import selects
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding

_PORTS: Final = {
    "ServiceMonitor": "spec.endpoints.*.port",
    "PodMonitor": "spec.podMetricsEndpoints.*.port",
}


def unscraped(change: Change) -> Iterator[Finding]:
    """Monitor ports that no selected Service or pod has; objects outside the manifests may have
    them.
    """
    for key, manifest, before in change.each(*_PORTS):
        names, old = _selected_ports(change.new, key, manifest), set[str]()
        if before is not None:
            old = _selected_ports(change.old, key, before)
        for path, port in select(manifest.body, _PORTS[key.kind]):
            if str(port) in names or not (names or str(port) in old):
                continue
            what = "Service" if key.kind == "ServiceMonitor" else "pod"
            have = f"; available ports: {', '.join(sorted(names))}" if names else ""
            reason = f"none of the selected {what}s has a port named {str(port)!r}{have}"
            known = change.first or (change.same(key) and str(port) not in old)
            yield finding("old" if known else "dangling", key, text_of(path), reason, manifest)


def _selected_ports(deployed: Deployed, key: Key, monitor: Manifest) -> set[str]:
    """The names of the ports of all that `monitor` selects among the manifests."""
    space, selector = mapping(monitor.spec, "namespaceSelector"), mapping(monitor.spec, "selector")
    spaces = space.get("matchNames") or [key.namespace]
    names: set[str] = set()
    for other, each in deployed.manifests.items():
        if not space.get("any") and other.namespace not in spaces:
            continue
        if key.kind == "ServiceMonitor" and other.kind == "Service":
            if selects(selector, mapping(each.body, "metadata", "labels")):
                names |= {str(name) for _, name in select(each.spec, "ports.*.name")}
        elif key.kind == "PodMonitor" and other in deployed.selected(other.namespace, selector):
            names |= {
                str(name)
                for _, container in containers(each.body)
                for _, name in select(container, "ports.*.name")
            }
    return names
