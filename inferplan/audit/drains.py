"""Disruption budgets that block evictions; and drains node after node as `kubectl drain` does: what the API server evicts, what a budget blocks, and what does not come back."""

import time
from collections.abc import Iterable, Iterator
from typing import Final

from inferplan.audit.deployed import Deployed
from inferplan.audit.manifest import Manifest, Object, finding
from inferplan.audit.placement import blamed_field
from inferplan.audit.session import Session
from inferplan.audit.templates import templates
from inferplan.kube.paths import mapping
from inferplan.rehearsal.cluster.api import ApiError
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.review.findings import Finding

_RETRIES_SECONDS: Final = 8.0
"""A budget that blocks for longer than a replacement needs to start here blocks forever."""
_TOO_MANY: Final = 429
_NAMESPACES: Final = ("kube-system", "inferplan-load")


def blocked_drains(session: Session, old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Disruption budgets that allow no eviction although all of their pods are healthy."""
    for key, manifest in new.manifests.items():
        live = session.watching.get(key) if key.kind == "PodDisruptionBudget" else None
        status = (live or {}).get("status") or {}
        expected, healthy = status.get("expectedPods", 0), status.get("currentHealthy", 0)
        if not expected or healthy < expected or status.get("disruptionsAllowed", 0):
            continue
        spec = manifest.body.get("spec") or {}
        field = _limit(manifest)
        before = old.manifests.get(key) if old else None
        same = old is None or (before is not None and before.body.get("spec") == spec and not _shrunk(old, new, key.namespace))
        reason = f"it allows no eviction although all {expected} of its pods are healthy ({field}: {spec.get(field)}), so a drain of their nodes never ends"
        yield finding("old-budget" if same else "budget", key, f"spec.{field}", reason, manifest)


def _limit(budget: Manifest) -> str:
    """The field that limits disruptions."""
    return next((name for name in ("minAvailable", "maxUnavailable") if name in mapping(budget.body, "spec")), "minAvailable")


def _shrunk(old: Deployed, new: Deployed, namespace: str) -> bool:
    """True if a workload in `namespace` has fewer replicas than before."""
    before, after = ({key: mapping(each.body, "spec").get("replicas") for key, each in side.manifests.items()} for side in (old, new))
    both = ((count, after.get(key)) for key, count in before.items() if key.namespace == namespace)
    return any(isinstance(was, int) and isinstance(now, int) and now < was for was, now in both)


def shared_budgets(old: Deployed | None, new: Deployed) -> Iterator[Finding]:
    """Disruption budgets that select pods of another budget: the API server evicts no pod that two budgets select."""
    budgets = {key: mapping(each.body, "spec", "selector") for key, each in new.manifests.items() if key.kind == "PodDisruptionBudget"}
    covered: dict[Key, Key] = {}
    for key, selector in sorted(budgets.items(), key=lambda item: old is None or item[0] not in old.manifests):
        labels = mapping(selector, "matchLabels")
        everything = (each for each, one in new.manifests.items() if each.namespace == key.namespace and any(templates(one.body)))
        for workload in everything if not selector else new.selected(key.namespace, labels) if not selector.get("matchExpressions") else ():
            if other := covered.get(workload):
                known = old is not None and {key, other} <= old.manifests.keys()
                reason = f"it selects the pods of {workload}, which {other} selects too, and the API server evicts no pod that two budgets select"
                code = "old-budget" if known or old is None else "budget"
                yield finding(code, key, "spec.selector", reason, new.manifests[key])
                break
            covered[workload] = key


def drained(session: Session, deployed: Deployed, nodes: Iterable[Object], limit: float) -> Iterator[Finding]:
    """The findings of draining each of `nodes`; a node is uncordoned before the next one is drained."""
    keys = [(each.api_version, key) for key, each in deployed.manifests.items()]
    seen: set[tuple[str, str]] = set()
    for node in (each["metadata"]["name"] for each in nodes if each["kind"] == "Node"):
        _cordon(session, node, on=True)
        several = [*_evict(session, deployed, node, limit)]
        waiting = session.settle(keys, limit)
        for key, reason in waiting.items():
            if key not in deployed.unready and (manifest := deployed.manifests.get(key)):
                text = f"after the drain of node {node} it does not come back: {reason}"
                several.append(finding("drain", key, blamed_field(reason, manifest, None), text, manifest))
        for each in several:
            if (each.object, each.field) not in seen:
                seen.add((each.object, each.field))
                yield each
        _cordon(session, node, on=False)
        session.settle(keys, limit)


def _cordon(session: Session, node: str, *, on: bool) -> None:
    path = session.api.resource("v1", "Node").path("", node)
    session.api.request("PATCH", path, {"spec": {"unschedulable": on}}, media="application/merge-patch+json")


def _evict(session: Session, deployed: Deployed, node: str, limit: float) -> Iterator[Finding]:
    for pod in session.watching.known("Pod"):
        metadata = pod["metadata"]
        owners = {each["kind"] for each in metadata.get("ownerReferences") or ()}
        if pod["spec"].get("nodeName") != node or "DaemonSet" in owners or metadata["namespace"] in _NAMESPACES:
            continue
        if not owners:
            key = Key("Pod", metadata["namespace"], metadata["name"])
            reason = f"no controller owns it, so kubectl drain of node {node} stops, and with --force nothing brings it back"
            yield finding("drain", key, "metadata.ownerReferences", reason, deployed.manifests.get(key))
        elif reason := _blocked(session, pod, limit):
            yield _finding(deployed, pod, node, reason)


def _blocked(session: Session, pod: Object, limit: float) -> str:
    """The API server's reason against the eviction of `pod`, "" once it is evicted."""
    metadata = pod["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {key: metadata[key] for key in ("name", "namespace")}}
    path = session.api.resource("v1", "Pod").path(metadata["namespace"], metadata["name"])
    deadline = time.monotonic() + min(_RETRIES_SECONDS, limit)
    while True:
        session.history.changed.clear()
        try:
            session.api.request("POST", f"{path}/eviction", eviction)
        except ApiError as error:
            if error.status == _TOO_MANY and time.monotonic() < deadline:
                session.history.changed.wait(1.0)
                continue
            causes = "; ".join(str(each.get("message", "")) for each in error.details.get("causes") or ())
            return "" if error.status == 404 else f"{error.message} {causes}".strip()
        return ""


def _finding(deployed: Deployed, pod: Object, node: str, reason: str) -> Finding:
    labels = pod["metadata"].get("labels") or {}
    for key, manifest in deployed.manifests.items():
        if key.kind == "PodDisruptionBudget" and key.namespace == pod["metadata"]["namespace"]:
            selector = mapping(manifest.body, "spec", "selector", "matchLabels")
            if selector.items() <= labels.items():
                text = f"it blocks the drain of node {node} at pod {pod['metadata']['name']}: {reason}"
                return finding("drain", key, f"spec.{_limit(manifest)}", text, manifest)
    key = Key("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
    return finding("drain", key, "", f"it cannot be evicted from node {node}: {reason}", None)
