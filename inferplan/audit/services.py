"""Services that lose their ready endpoints during a change, or never get any."""

from collections.abc import Iterator, Mapping

from inferplan.audit.deployed import Deployed
from inferplan.audit.manifest import Manifest, finding
from inferplan.audit.session import Session
from inferplan.audit.templates import templates
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.rehearsal.engine.wait.timeouts import spelled
from inferplan.review.findings import Finding

_SHORTEST_GAP = 0.05


def outages(session: Session, old: Deployed | None, new: Deployed, since: float) -> Iterator[Finding]:
    for key, manifest in new.manifests.items():
        spec = manifest.body.get("spec") or {}
        selector = spec.get("selector") or {}
        if key.kind != "Service" or manifest.api_version != "v1" or not selector or spec.get("type") == "ExternalName":
            continue
        servers = new.selected(key.namespace, selector)
        if not session.history.endpoints(key):
            yield from _without(session, key, manifest, servers, old, new, since)
        elif old is not None and (seconds := session.history.gap(key, since)) > _SHORTEST_GAP:
            yield _gap(key, manifest, servers, old.selected(key.namespace, selector), seconds)


def _without(
    session: Session, key: Key, manifest: Manifest, servers: dict[Key, Manifest], old: Deployed | None, new: Deployed, since: float
) -> Iterator[Finding]:
    if servers and all((each.body.get("spec") or {}).get("replicas", 1) == 0 for each in servers.values()):
        return  # it is scaled to zero
    had = session.history.gap(key, since) > 0
    lost = " since the change; before it had one" if had else ""
    code, field, names = "no-endpoint", "spec.selector", ", ".join(map(str, servers))
    if not servers:
        operators = sorted({f"{each.kind} {each.name}" for each in new.manifests.values() if "." in each.group and not _is_builtin(each)})
        reason = f"no pod template has the labels of its selector{lost}"
        if operators and not had:
            code, reason = "stub", f"{reason}; pods of {', '.join(operators[:3])} may"
        elif old is not None and key in old.manifests and not had:
            code = "old"
    elif wrong := _unnamed_port(manifest, servers):
        field, reason = wrong[0], f"no container of {names} has a port named {wrong[1]!r}"
    elif had or any(each in new.unready for each in servers):
        reason = f"its pods are those of {names}, which {'is' if len(servers) == 1 else 'are'} not ready{lost}"
    else:
        return  # the stub of an operator, or a Job
    yield finding(code, key, field, reason, manifest)


def _gap(key: Key, manifest: Manifest, servers: dict[Key, Manifest], before: dict[Key, Manifest], seconds: float) -> Finding:
    accepted = bool(servers) and all(_stops_first(each) and _stops_first(before.get(name)) for name, each in servers.items())
    names = ", ".join(map(str, servers)) or "none"
    reason = (
        f"no ready endpoint for {spelled(seconds)} in the simulated cluster, where servers start at once; really until a server of {names} has "
        "loaded its model"
    )
    return finding("accepted-gap" if accepted else "gap", key, _strategy(servers), reason, manifest)


def _strategy(servers: Mapping[Key, Manifest]) -> str:
    first = next(iter(servers), None)
    return {"Deployment": "spec.strategy", "StatefulSet": "spec.updateStrategy"}.get(first.kind if first else "", "spec.selector")


def _stops_first(manifest: Manifest | None) -> bool:
    """True if the workload has no replica that answers while another one is replaced."""
    if manifest is None:
        return False
    spec = manifest.body.get("spec") or {}
    recreates = (spec.get("strategy") or {}).get("type") == "Recreate"
    return recreates or (manifest.kind in ("StatefulSet", "DaemonSet") and spec.get("replicas", 1) == 1)


def _unnamed_port(manifest: Manifest, servers: Mapping[Key, Manifest]) -> tuple[str, str] | None:
    names = {
        port.get("name")
        for each in servers.values()
        for _, template in templates(each.body)
        for container in (template.get("spec") or {}).get("containers") or ()
        for port in container.get("ports") or ()
    }
    for index, port in enumerate((manifest.body.get("spec") or {}).get("ports") or ()):
        target = port.get("targetPort")
        if isinstance(target, str) and not target.isdigit() and target not in names:
            return f"spec.ports[{index}].targetPort", target
    return None


def _is_builtin(manifest: Manifest) -> bool:
    return manifest.group.endswith(".k8s.io")
