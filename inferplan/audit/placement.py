"""Why pods of an object are not placed or not created: old pods that hold what they need, and
objects that reject them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from inferplan.audit.blame import blamed_field, named_field
from inferplan.audit.claims import claims_of, unmet_field
from inferplan.audit.deployed import Change
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.session import Session
from inferplan.audit.templates import requests_of, select, templates
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import mapping, parse, text_of, values_at
from inferplan.kube.quantity import number
from inferplan.kube.selectors import selects
from inferplan.rehearsal.wait.object_events import Key
from inferplan.rehearsal.wait.reasons import pods_of
from inferplan.review.findings import Finding
from inferplan.tables import table

_TABLE: Final = table("audit/placement.toml")
_CLAIM_NAME: Final = "spec.volumes.*.persistentVolumeClaim.claimName"
_TEMPLATE_CLASS: Final = "spec.volumeClaimTemplates.*.spec.storageClassName"
_CLAIMS: Final = ("ResourceClaimTemplate", "ResourceClaim")  # for devices
_LIMIT_SECONDS: Final = 20.0


def blocking_pods(
    change: Change, key: Key, manifest: Manifest, before: Manifest | None, reason: str
) -> str:
    """The old pods that hold what new pods of `key` need by `reason` and would get, as a clause; ""
    if there are none.
    """
    field = parse(blamed_field(reason, manifest, before, change.nodes))
    what = next((what for words, what in _TABLE["held"].items() if re.search(words, reason)), "")
    # A rule that the change itself adds is to blame, not the old pods.
    is_old = before is not None and values_at(before.body, field) == values_at(manifest.body, field)
    session, pods = change.session, _pods(change.session, key)
    # When an old pod ends, a node gains nothing that the change needs except accelerators.
    if before is not None and not is_old and "resources" in field and not vendor_of(str(field[-1])):
        return ""
    if (
        is_old
        and key.kind == "Deployment"
        and "exceeded quota" in reason
        and pods
        and not change.same(key, "spec", "template")
    ):
        return "its old pods hold the quota until a new pod is Ready"
    # Pods of one workload have the same needs.
    for pod in {
        str(requests_of(each["spec"])): each for each in pods if not each["spec"].get("nodeName")
    }.values():
        older = [
            each
            for each in session.watching.known("Pod")
            if each["spec"].get("nodeName") and _is_older(each, pod, manifest)
        ]
        holders = {what: [each["metadata"]["name"] for each in older]} if what and is_old else {}
        wanted = {
            name: count
            for name, count in requests_of(pod["spec"]).items()
            if f"Insufficient {name}" in reason
        }
        holders |= {
            name: _held_by_old(session, older, name, count) for name, count in wanted.items()
        }
        for resource, names in holders.items():
            if names:
                return f"its old pods hold {resource} until a new pod is Ready"
    return ""


def restrictions(change: Change, key: Key, workload: Manifest, reason: str) -> Iterator[Finding]:
    """Findings on new or changed objects, such as a quota, that keep pods of `key` from running for
    `reason`.
    """
    patterns = {
        kind: pattern for words, kind, pattern in _TABLE["restricts"] if re.search(words, reason)
    }
    for other, manifest, before in change.each(*patterns) if patterns else ():
        near = other.name if other.kind == "Namespace" else other.namespace
        if (
            near not in ("", key.namespace)
            or change.same(other)
            or not _concerns(change, other, manifest, key, workload, reason)
        ):
            continue
        fields = [
            text_of(path)
            for pattern in patterns[other.kind].split("|")
            for path, value in select(manifest.body, pattern)
            if before is None or values_at(before.body, path) != value
        ]
        number = re.search("selector #([0-9]+)", reason)
        fields = fields[int(number[1]) if number else 0 :] or fields
        if not fields and other.kind in _TABLE["exact"]:
            continue
        field = fields[0] if fields else named_field(reason, manifest, before)
        if other.kind in _CLAIMS and not number:
            field = _unmet(change, key, workload, other, manifest) or field
        yield finding("restricts", other, field, f"pods of {key} do not run: {reason}", manifest)


def _concerns(
    change: Change, other: Key, manifest: Manifest, key: Key, workload: Manifest, reason: str
) -> bool:
    """True if the object `other` is about the pods of `key`: by what they name, by what it names, or
    because `reason` names it; a LimitRange and a Namespace are about all.
    """
    if other.kind in _CLAIMS:
        return (other.kind, other.name) in claims_of(workload.body)
    if other.kind == "RuntimeClass":
        pods = (each for _, each in templates(workload.body))
        return any(mapping(each, "spec").get("runtimeClassName") == other.name for each in pods)
    if other.kind == "StorageClass":
        return other.name in _classes(change, key, workload)
    if target := mapping(manifest.spec, "scaleTargetRef"):
        return (target.get("kind", "Deployment"), target.get("name")) == (key.kind, key.name)
    return other.kind in ("LimitRange", "Namespace") or other.name in reason


def _classes(change: Change, key: Key, workload: Manifest) -> Iterator[str]:
    """The storage classes of the claims of `workload`."""
    yield from (str(name) for _, name in select(workload.body, _TEMPLATE_CLASS))
    for _, template in templates(workload.body):
        for _, name in select(template, _CLAIM_NAME):
            live = change.session.get(Key("PersistentVolumeClaim", key.namespace, str(name)), "v1")
            yield str(mapping(live, "spec").get("storageClassName"))


def _unmet(change: Change, key: Key, workload: Manifest, other: Key, claim: Manifest) -> str:
    """The field of the claim `other` that no node meets, "" if a node meets it; an earlier one is
    that of the same name, or which the pods of `key` had.
    """
    if other not in change.unmet:
        before = change.old.manifests
        had = claims_of(before[key].body) if key in before else ()
        names = [other, *(Key(kind, other.namespace, name) for kind, name in sorted(had))]
        change.unmet[other] = unmet_field(
            change.session,
            change.nodes,
            next((mapping(each, "spec") for _, each in templates(workload.body)), {}),
            claim,
            next((before[each] for each in names if each in before), None),
            _LIMIT_SECONDS,
        )
    return change.unmet[other]


def displacements(change: Change, key: Key) -> Iterator[Finding]:
    """Findings on workloads whose pods displaced those of `key` by their priority."""
    session = change.session
    names = {each["metadata"]["uid"]: each for each in session.watching.known("Pod")}
    uids = {
        uid
        for (namespace, name), uid in session.history.preempted.items()
        if namespace == key.namespace and str(name).startswith(f"{key.name}-")
    }
    for other, manifest, _ in change.each():
        pods = [
            each for each in _pods(session, other) if each["metadata"]["uid"] in uids & names.keys()
        ]
        if pods and not change.same(other, "spec"):
            priority, path = pods[0]["spec"].get("priority", 0), next(templates(manifest.body))[0]
            words = f"its pods, of priority {priority}, displaced those of {key}, which find no other room"
            field = text_of((*path, "spec", "priorityClassName"))
            yield finding("displaces", other, field, words, manifest)


def pods_of_others(session: Session, key: Key, left: Mapping[Key, Manifest]) -> str:
    """The workloads that stay although they are no longer declared, and whose pods hold
    accelerators that `key` needs; "" if there are none.
    """
    wanted = {
        name
        for pod in _pods(session, key)
        if not pod["spec"].get("nodeName")
        for name in requests_of(pod["spec"])
    }
    holders = {
        str(other)
        for other in left
        for pod in _pods(session, other)
        if wanted & requests_of(pod["spec"]).keys()
    }
    return ", ".join(sorted(holders))


def _held_by_old(session: Session, older: list[Object], resource: str, count: int) -> list[str]:
    """Those of the pods `older` that are on a node where a pod with `count` of `resource` would fit
    without them.
    """
    used: Counter[str] = Counter()
    for each in session.watching.known("Pod"):
        used[each["spec"].get("nodeName", "")] += requests_of(each["spec"])[resource]
    for node in session.watching.known("Node"):
        here = node["metadata"]["name"]
        free = number(mapping(node, "status", "allocatable").get(resource), 0) - used[here]
        holds = {
            each["metadata"]["name"]: requests_of(each["spec"])[resource]
            for each in older
            if each["spec"]["nodeName"] == here
        }
        if free < count <= free + sum(holds.values()):
            return [name for name, each in holds.items() if each]
    return []


def _is_older(other: Object, pod: Object, manifest: Manifest) -> bool:
    """True if `other` is a pod of an earlier revision of the same workload, or of a workload that
    stays only until the change is done.
    """
    theirs, labels = mapping(other, "metadata", "labels"), mapping(pod, "metadata", "labels")
    newer = [
        each
        for each in ("pod-template-hash", "controller-revision-hash")
        if theirs.get(each, labels.get(each)) != labels.get(each)
    ]
    selector = mapping(manifest.spec, "selector") or {
        "matchLabels": {name: each for name, each in labels.items() if name not in newer}
    }
    same = other["metadata"].get("namespace") == pod["metadata"].get("namespace") and selects(
        selector, theirs
    )
    return same and any(each in labels for each in newer)


def _pods(session: Session, key: Key) -> list[Object]:
    live = session.watching.get(key)
    return pods_of(session.watching, live) if live else []
