"""Turns what happened in the simulated cluster into findings, the most serious first."""

from collections.abc import Iterable, Iterator
from typing import Final

from inferplan.audit import drains, guards
from inferplan.audit.autoscalers import unscalable
from inferplan.audit.blame import blamed_field
from inferplan.audit.denials import denied_updates
from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.findings import TITLES, finding
from inferplan.audit.kubelet import unstartable
from inferplan.audit.manifest import Manifest
from inferplan.audit.monitors import unscraped
from inferplan.audit.placement import blocking_pods, displacements, pods_of_others, restrictions
from inferplan.audit.removals import VERSIONS, removed, unknown_of_nodes
from inferplan.audit.services import STRATEGIES, outages
from inferplan.audit.session import Session
from inferplan.audit.templates import schedulers, select
from inferplan.audit.volumes import attached_volumes
from inferplan.documents.text import joined
from inferplan.kube.paths import mapping, text_of
from inferplan.kube.quantity import number
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding

_ORDER: Final = ("blocked", "risk", "note")
_HOLDERS: Final = {"CustomResourceDefinition": "definition", "Namespace": "namespace"}
_NO_STRATEGY: Final = "delete the old pods first, or add a node for the new ones"
_DOUBTS: Final = (
    outages,
    guards.missing_targets,
    unscraped,
    guards.dropped_fields,
    guards.rejected_again,
    denied_updates,
    drains.blocked_drains,
    drains.shared_budgets,
    attached_volumes,
    unstartable,
    guards.repeated_variables,
    guards.double_owners,
    unscalable,
    guards.other_managers,
    guards.later_owners,
    guards.unserved_webhooks,
)
"""An earlier one counts, if two find the same code for an object."""


def judge(change: Change) -> Iterator[Finding]:
    yield from (
        *_rejections(change),
        *_replaced(change),
        *_unready(change),
        *_empty(change),
        *_removed(change),
        *_disks(change),
    )
    doubts = [each for find in _DOUBTS for each in find(change)]
    yield from {(each.object, each.field, each.code): each for each in reversed(doubts)}.values()


def announced(
    change: Change, old: Iterable[Manifest], new: Iterable[Manifest], target: str
) -> Iterator[Finding]:
    """The findings on what the version `target` removes; what the simulated cluster's own version
    lacks may be in `old` too.
    """
    session, unserved = (
        change.session,
        {each.object for each in change.new.rejections if each.code == "unserved"},
    )
    running = {(each.kind, each.name, *rest) for _, each, *rest in removed(old, VERSIONS[0])}
    for code, manifest, field, reason in removed(new, target):
        known, key = (manifest.kind, manifest.name, field, reason) in running, session.key(manifest)
        if field != "apiVersion" or str(key) not in unserved:
            yield finding("old" if known else code, key, field, reason, manifest)
    if target != VERSIONS[0]:
        words = (
            f"the control plane was upgraded to {session.version} with its data before the new"
            " state was applied"
        )
        yield from (
            finding("target", f"Kubernetes {target}", "", each, None)
            for each in (words, *unknown_of_nodes(target))
        )


def survived(session: Session, old: Deployed, limit: float) -> Iterator[Finding]:
    """The findings on objects of `old` that were ready, and are not after an upgrade of the control
    plane.
    """
    for key, cause in session.settle(old.versioned, limit).items():
        if key not in old.unready:
            field = blamed_field(cause, old.manifests[key], None)
            yield finding(
                "upgrade",
                key,
                field,
                f"after the upgrade to {session.version}: {cause}",
                old.manifests[key],
            )


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """`findings` without repetitions, the most serious first."""
    return tuple(
        sorted(
            dict.fromkeys(findings),
            key=lambda each: (
                _ORDER.index(each.weight),
                list(TITLES).index(each.code),
                each.object,
            ),
        )
    )


def _rejections(change: Change) -> Iterator[Finding]:
    new, before = change.new, {(each.object, each.reason) for each in change.old.rejections}
    for each in new.rejections:
        yield finding(
            "old" if (each.object, each.reason) in before else each.code,
            each.object,
            each.field,
            each.reason,
            each,
        )
    rejected = {each.object for each in new.rejections}
    for each in change.old.rejections:
        if each.object not in rejected:
            words = f"the change over it was not tried: {each.reason}"
            yield finding("old-rejected", each.object, each.field, words, each)
    if new.skipped:
        names = joined([f"{each.kind} {each.name}" for each in new.skipped], 5)
        waiting = f"{next(iter(new.surplus), None)} of an earlier wave is not ready"
        cause = f"{new.rejections[0].object} was rejected" if new.rejections else waiting
        yield finding(
            "skipped",
            f"{len(new.skipped)} objects",
            "",
            f"{names}, because {cause}",
            [*new.rejections, *new.skipped][0],
        )


def _replaced(change: Change) -> Iterator[Finding]:
    """Notes on operators and schedulers that do not run here."""
    for key, manifest in change.new.manifests.items():
        if key in change.session.stubs:
            yield finding(
                "stub",
                key,
                "",
                change.session.stubs[key] or "no operator of this kind runs here",
                manifest,
            )
        for path, name in schedulers(manifest.body).items():
            yield finding(
                "stub",
                key,
                text_of(path),
                f"the scheduler {name} does not run here; that of Kubernetes places its pods",
                manifest,
            )


def _unready(change: Change) -> Iterator[Finding]:
    session, old, new = change.session, change.old, change.new
    for key, cause in new.unready.items():
        reason = (
            f"{cause} (pods of a stub: its operator does not run here)"
            if key in session.stubs
            else cause
        )
        before, manifest = old.manifests.get(key), new.manifests.get(key) or new.declared.get(key)
        if manifest is None or manifest.spec.get("suspend") is True:
            continue
        yield from displacements(change, key)
        if key in old.unready and before is not None and before.body == manifest.body:
            yield finding("old", key, "", reason, manifest)
        elif pods := blocking_pods(change, key, manifest, before, reason):
            field = STRATEGIES.get(key.kind) or blamed_field(reason, manifest, before, change.nodes)
            remedy = "" if key.kind in STRATEGIES else _NO_STRATEGY
            yield finding("no-room", key, field, f"{reason}; {pods}", manifest, remedy=remedy)
            yield from restrictions(change, key, manifest, cause)
        elif others := pods_of_others(session, key, new.left):
            words = f"{reason}; {others}, which is no longer declared, still holds what they need"
            remedy = f"delete {others}, or let the deployer prune it, or add a node"
            yield finding("no-room", key, "metadata.name", words, manifest, remedy=remedy)
        else:
            field = blamed_field(reason, manifest, before, change.nodes)
            yield finding("unready", key, field, reason, manifest)
            yield from restrictions(change, key, manifest, cause)
    for key, message in session.history.quotas.items():
        owner = next(
            (
                each
                for each in new.manifests
                if key.name.startswith(each.name) and key.namespace == each.namespace
            ),
            None,
        )
        if (
            owner is not None
            and owner not in new.unready
            and owner.kind not in ("Service", "ConfigMap", "Secret")
        ):
            manifest = new.manifests[owner]
            yield finding(
                "quota",
                owner,
                blamed_field(message, manifest, old.manifests.get(owner)),
                message,
                manifest,
            )


def _empty(change: Change) -> Iterator[Finding]:
    """DaemonSets that have no pods, although they had some or are new: without a pod nothing waits,
    and nothing fails.
    """
    for key, manifest, before in change.each("DaemonSet"):
        live, had = change.session.watching.get(key), key in change.old.pods
        if (
            live is not None
            and (had or before is None)
            and not mapping(live, "status").get("desiredNumberScheduled")
        ):
            reason = "no node matches its node selector, affinity and tolerations" + (
                ", and it had pods before" if had else ""
            )
            words = "untolerated taint, node affinity/selector" if had else "node affinity/selector"
            yield finding(
                "no-pods" if had else "idle",
                key,
                blamed_field(words, manifest, before),
                reason,
                manifest,
            )


def _holds(parent: Manifest, key: Key, manifest: Manifest) -> bool:
    """True if the object is deleted with `parent`: its definition or its namespace."""
    if parent.kind == "CustomResourceDefinition":
        kind = mapping(parent.spec, "names").get("kind")
        return (manifest.group, manifest.kind) == (parent.spec.get("group"), kind)
    return parent.kind == "Namespace" and key.namespace == parent.name


def _disks(change: Change) -> Iterator[Finding]:
    """StatefulSets whose controller deletes claims with their data, since they have fewer replicas
    or are deleted.
    """
    went = {key: change.new.deleted.get(key) for key in change.new.recreated} | change.new.deleted
    for key, manifest, before in change.each("StatefulSet"):
        policy = mapping(manifest.spec, "persistentVolumeClaimRetentionPolicy")
        count, had = (
            number(each.spec.get("replicas"), 1) if each else 0 for each in (manifest, before)
        )
        several = [
            text for _, text in select(manifest.spec, "volumeClaimTemplates.*.metadata.name")
        ]
        if several and policy.get("whenScaled") == "Delete" and count < had:
            names = [f"{name}-{key.name}-{at}" for at in range(count, had) for name in several]
            field = "spec.replicas"
            reason = (
                f"whenScaled is Delete, so its controller deletes {joined(names, 3)} with the data"
            )
            yield finding("claim", key, field, reason, manifest)
    for key, manifest in went.items():
        each = manifest or change.old.manifests.get(key)
        policy = mapping(each.spec if each else {}, "persistentVolumeClaimRetentionPolicy")
        has_disks = bool(each and each.spec.get("volumeClaimTemplates"))
        if key.kind == "StatefulSet" and has_disks and policy.get("whenDeleted") == "Delete":
            field = "spec.persistentVolumeClaimRetentionPolicy.whenDeleted"
            reason = "it is deleted, and its controller deletes its claims with the data"
            yield finding("claim", key, field, reason, each)


def _removed(change: Change) -> Iterator[Finding]:
    new = change.new
    for key, manifest in new.deleted.items():
        if key.kind in ("PersistentVolumeClaim", "PersistentVolume"):
            yield finding(
                "claim",
                key,
                "",
                "it is no longer declared, so the deployer deletes it with its data",
                manifest,
            )
    for parent in (each for each in new.deleted.values() if each.kind in _HOLDERS):
        for key, manifest in new.declared.items():
            if _holds(parent, key, manifest):
                holder = _HOLDERS[parent.kind]
                words = f"its {holder} is no longer declared, so the deployer deletes both"
                yield finding("gone", key, "", words, manifest)
    for key, reason in new.stuck.items():
        manifest = new.deleted.get(key) or new.declared.get(key) or change.old.manifests.get(key)
        yield finding("stuck", key, "metadata.finalizers", reason, manifest)
    why = (
        "something was rejected, so nothing was deleted"
        if new.rejections
        else "the deployer does not delete it"
    )
    for key, manifest in new.left.items():
        yield finding("left", key, "", f"it is no longer declared, and stays: {why}", manifest)
