"""Disruption budgets that block evictions; and drains node after node as `kubectl drain` does: what
the API server evicts, what a budget blocks, and what does not come back.
"""

import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Final

from inferplan.audit.blame import blamed_field
from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.findings import finding
from inferplan.audit.fleet import LOAD_NAMESPACE
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.session import Session
from inferplan.kube.api import ApiError
from inferplan.kube.objects import condition
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import number
from inferplan.kube.selectors import selects
from inferplan.rehearsal.wait.object_events import Key, key_of
from inferplan.review.findings import Finding

_BUDGET: Final = "PodDisruptionBudget"
_RETRIES_SECONDS: Final = 8.0
"""A budget that blocks for longer than a replacement needs to start here blocks forever."""


def blocked_drains(change: Change) -> Iterator[Finding]:
    """Disruption budgets that allow no eviction although all of their pods are healthy."""
    for key, manifest, _ in change.each(_BUDGET):
        live = change.session.watching.get(key)
        status, allowed = mapping(live, "status"), condition(live or {}, "DisruptionAllowed")
        if allowed.get("reason") == "SyncFailed":
            # The disruption controller cannot count pods of a Job, or pods without a controller.
            known = change.first or change.same(key, "spec")
            message = allowed.get("message")
            reason = f"it blocks all evictions because its pods cannot be counted: {message}"
            field = f"spec.{_limit(manifest)}"
            yield finding("old-budget" if known else "budget", key, field, reason, manifest)
            continue
        expected, field = status.get("expectedPods", 0), _limit(manifest)
        if (
            expected
            and status.get("currentHealthy", 0) >= expected
            and not status.get("disruptionsAllowed", 0)
        ):
            # A budget that stays as it is blocks drains if a workload has fewer replicas than
            # before.
            nearby = [
                (old, new)
                for other, new, old in change.each()
                if old and other.namespace == key.namespace
            ]
            shrunk = any(
                number(new.spec.get("replicas"), 1) < number(old.spec.get("replicas"), 1)
                for old, new in nearby
            )
            same = change.first or (change.same(key, "spec") and not shrunk)
            limit = f"all {expected} of its pods are healthy ({field}: {manifest.spec.get(field)})"
            reason = f"it allows no eviction although {limit}, so a drain of their nodes never ends"
            yield finding(
                "old-budget" if same else "budget", key, f"spec.{field}", reason, manifest
            )


def _limit(budget: Manifest) -> str:
    """The field that limits disruptions."""
    return next(
        (name for name in ("minAvailable", "maxUnavailable") if name in budget.spec), "minAvailable"
    )


def shared_budgets(change: Change) -> Iterator[Finding]:
    """Disruption budgets that select pods of another budget: the API server evicts no pod that two
    budgets select.
    """
    covered: dict[Key, Key] = {}
    for key, manifest, before in sorted(
        change.each(_BUDGET), key=lambda each: not change.first and each[2] is None
    ):
        for workload in change.new.selected(key.namespace, mapping(manifest.spec, "selector")):
            if other := covered.get(workload):
                known = before is not None and other in change.old.manifests
                reason = (
                    f"it selects the pods of {workload}, which {other} selects too, and the API"
                    " server evicts no pod that two budgets select"
                )
                yield finding(
                    "old-budget" if known or change.first else "budget",
                    key,
                    "spec.selector",
                    reason,
                    manifest,
                )
                break
            covered[workload] = key


def drained(
    session: Session, deployed: Deployed, nodes: Iterable[Object], limit: float
) -> Iterator[Finding]:
    """The findings of draining each of `nodes`; a node is uncordoned before the next one is
    drained.
    """
    seen: dict[tuple[str, str], Finding] = {}
    for node in (each["metadata"]["name"] for each in nodes if each["kind"] == "Node"):
        _cordon(session, node, on=True)
        several = [*_evict(session, deployed, node, limit)]
        for key, reason in session.settle(deployed.versioned, limit).items():
            if key not in deployed.unready and (manifest := deployed.manifests.get(key)):
                text = f"after the drain of node {node} it does not come back: {reason}"
                several.append(
                    finding("drain", key, blamed_field(reason, manifest, None), text, manifest)
                )
        for each in several:
            seen.setdefault((each.object, each.field), each)
        _cordon(session, node, on=False)
        session.settle(deployed.versioned, limit)
    yield from seen.values()


def _cordon(session: Session, node: str, *, on: bool) -> None:
    path = session.api.resource("v1", "Node").path("", node)
    session.api.request(
        "PATCH", path, {"spec": {"unschedulable": on}}, media="application/merge-patch+json"
    )


def _evict(session: Session, deployed: Deployed, node: str, limit: float) -> Iterator[Finding]:
    for pod in session.watching.known("Pod"):
        key, owners = (
            key_of(pod),
            {each["kind"] for each in pod["metadata"].get("ownerReferences") or ()},
        )
        if (
            pod["spec"].get("nodeName") != node
            or "DaemonSet" in owners
            or key.namespace in ("kube-system", LOAD_NAMESPACE)
        ):
            continue
        if not owners:
            reason = (
                f"no controller owns it, so kubectl drain of node {node} stops, and with --force"
                " nothing brings it back"
            )
            yield finding(
                "drain", key, "metadata.ownerReferences", reason, deployed.manifests.get(key)
            )
        elif reason := _blocked(session, key, limit):
            labels = mapping(pod, "metadata", "labels")
            budgets = (
                each
                for other, each in deployed.manifests.items()
                if (other.kind, other.namespace) == (_BUDGET, key.namespace)
            )
            budget = next(
                (each for each in budgets if selects(mapping(each.spec, "selector"), labels)), None
            )
            if budget is None:
                yield finding(
                    "drain", key, "", f"it cannot be evicted from node {node}: {reason}", None
                )
            else:
                text = f"it blocks the drain of node {node} at pod {key.name}: {reason}"
                yield finding("drain", session.key(budget), f"spec.{_limit(budget)}", text, budget)


def _blocked(session: Session, pod: Key, limit: float) -> str:
    """The API server's reason against the eviction of `pod`, "" once it is evicted."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
    }
    path = session.api.resource("v1", "Pod").path(pod.namespace, pod.name)
    deadline = time.monotonic() + min(_RETRIES_SECONDS, limit)
    while True:
        session.history.changed.clear()
        try:
            session.api.request("POST", f"{path}/eviction", eviction)
        except ApiError as error:
            if error.status == HTTPStatus.TOO_MANY_REQUESTS and time.monotonic() < deadline:
                session.history.changed.wait(1.0)
                continue
            causes = "; ".join(
                str(each.get("message", "")) for each in error.details.get("causes") or ()
            )
            return (
                "" if error.status == HTTPStatus.NOT_FOUND else f"{error.message} {causes}".strip()
            )
        return ""
