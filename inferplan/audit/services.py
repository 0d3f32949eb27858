"""Services that lose their ready endpoints during a change, or never get any."""

import re
from collections.abc import Iterator, Mapping

from inferplan.audit.deployed import Change
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest
from inferplan.audit.merge import differences
from inferplan.audit.templates import containers, is_unnamed, select
from inferplan.kube.objects import label
from inferplan.kube.paths import mapping, text_of
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding

_SHORTEST_GAP = 0.05
_SERVICE = "kubernetes.io/service-name"
STRATEGIES = {"Deployment": "spec.strategy", "StatefulSet": "spec.updateStrategy"}
"""The field of a workload that says how its pods are replaced."""


def outages(change: Change) -> Iterator[Finding]:
    for key, manifest, declared in change.each("Service"):
        selector = manifest.spec.get("selector") or {}
        if manifest.api_version != "v1" or manifest.spec.get("type") == "ExternalName":
            continue
        if not selector:
            yield from _by_hand(change, key, manifest)
            continue
        servers = change.new.selected(key.namespace, {"matchLabels": selector})
        history = change.session.history
        unserved = history.unserved(key.namespace, selector, change.since)
        seconds = max(history.gap(key, change.since), unserved)
        if not history.endpoints(key):
            yield from _without(change, key, manifest, servers, had=seconds > 0)
            continue
        differing = differences(declared.body if declared else {}, manifest.body)
        moved = next(
            (each for each in differing if re.search(r"^spec\.selector|targetPort", each)), ""
        )
        # New pods are Ready at once here. If the Service moved to them, or no old pod was left, the
        # real gap lasts as long as a server takes to start.
        if seconds > (0 if moved or unserved else _SHORTEST_GAP):
            before, names = (
                change.old.selected(key.namespace, {"matchLabels": selector}),
                ", ".join(map(str, servers)) or "none",
            )
            # An operator replaces pods whose template is not in the manifests.
            accepted = all(
                _stops_first(each) and _stops_first(before.get(name))
                for name, each in servers.items()
            )
            really = f"really until a server of {names} has loaded its model"
            reason = (
                "no ready endpoint for a moment in the simulated cluster, where servers start at"
                f" once; {really}"
            )
            field = moved or STRATEGIES.get(
                next((each.kind for each in servers), ""), "spec.selector"
            )
            yield finding("accepted-gap" if accepted else "gap", key, field, reason, manifest)


def _without(
    change: Change, key: Key, manifest: Manifest, servers: Mapping[Key, Manifest], *, had: bool
) -> Iterator[Finding]:
    if servers and all(each.spec.get("replicas", 1) == 0 for each in servers.values()):
        return  # it is scaled to zero
    lost = " since the change; before it had one" if had else ""
    code, field, names = "no-endpoint", "spec.selector", ", ".join(map(str, servers))
    if not servers:
        several = change.new.manifests.values()
        operators = sorted(
            {
                f"{each.kind} {each.name}"
                for each in several
                if "." in each.group and not each.group.endswith(".k8s.io")
            }
        )
        reason = f"no pod template has the labels of its selector{lost}"
        if operators and not had:
            code, reason = "stub", f"{reason}; pods of {', '.join(operators[:3])} may"
        elif key in change.old.manifests and not had:
            code = "old"
    elif wrong := _unnamed_port(manifest, servers):
        field, reason = wrong[0], f"no container of {names} has a port named {wrong[1]!r}"
    elif had or any(each in change.new.unready for each in servers):
        # Without an endpoint before the change, nothing is lost, and the finding on the workload
        # says why.
        code = "no-endpoint" if had else "waits"
        reason = (
            f"its pods are those of {names}, which {'is' if len(servers) == 1 else 'are'} not"
            f" ready{lost}"
        )
    else:
        return  # the stub of an operator, or a Job
    yield finding(code, key, field, reason, manifest)


def _by_hand(change: Change, key: Key, manifest: Manifest) -> Iterator[Finding]:
    """The finding on a Service without selector, whose EndpointSlices are declared, or made by an
    operator.
    """
    declared = [
        (other, each)
        for other, each, _ in change.each("EndpointSlice", "Endpoints")
        if other.namespace == key.namespace
        and key.name in (label(each.body, _SERVICE), other.name if each.kind == "Endpoints" else "")
    ]
    live = [
        each
        for each in change.session.watching.known("EndpointSlice")
        if (each["metadata"]["namespace"], label(each, _SERVICE)) == (key.namespace, key.name)
        and any(
            mapping(end, "conditions").get("ready") is not False
            for end in each.get("endpoints") or ()
        )
    ]
    named = {str(port.get("name") or "") for each in live for port in each.get("ports") or ()}
    missing = [
        (f"spec.ports[{index}].name", str(each.get("name") or ""))
        for index, each in enumerate(manifest.spec.get("ports") or ())
        if str(each.get("name") or "") not in named
    ]
    same = change.same(key, "spec") and all(change.same(other) for other, _ in declared)
    if live and not missing:
        return
    subject, origin, field = key, manifest, missing[0][0] if live else "spec.selector"
    changed = next(
        (each for each in declared if not change.same(each[0])), declared[0] if declared else None
    )
    if changed and (not live or change.same(key, "spec")):
        subject, origin = changed
        patterns = ("ports.*.name", "subsets.*.ports.*.name", "ports", "subsets")
        if not live:
            patterns = ("endpoints.*.conditions.ready", "endpoints", "subsets")
        paths = (path for each in patterns for path, _ in select(origin.body, each))
        field = text_of(next(paths, ("endpoints",)))
    reason = (
        f"{key} has a port {missing[0][1]!r}, and its endpoints have the ports {', '.join(map(repr, sorted(named)))}"
        if live
        else f"{key} has no selector, and no EndpointSlice has a ready endpoint for it"
    )
    had = change.session.history.had_endpoints(key, change.since)
    if not declared and not had:
        code = "waits"  # an operator or a person creates them
    else:
        code = "old" if same and not (had and not live) else "no-endpoint"
    remedy = (
        "give the port one name in the Service and in its EndpointSlices"
        if live
        else f"declare an EndpointSlice with a ready endpoint and the label {_SERVICE}: {key.name}"
    )
    yield finding(code, subject, field, reason, origin, remedy=remedy)


def _stops_first(manifest: Manifest | None) -> bool:
    """True if the workload has no replica that answers while another one is replaced."""
    if manifest is None:
        return False
    single = manifest.kind in ("StatefulSet", "DaemonSet") and manifest.spec.get("replicas", 1) == 1
    return single or (manifest.spec.get("strategy") or {}).get("type") == "Recreate"


def _unnamed_port(manifest: Manifest, servers: Mapping[Key, Manifest]) -> tuple[str, str] | None:
    several = [container for each in servers.values() for _, container in containers(each.body)]
    ports = select(manifest.body, "spec.ports.*.targetPort")
    return next(((text_of(path), port) for path, port in ports if is_unnamed(port, several)), None)
