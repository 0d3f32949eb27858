"""What a reviewer must not miss: what goes, what is replaced, what loses its protection; with cause and consequence.

The consequences are general knowledge about kinds of resources, in words; nothing here knows a stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from review.changes import PropertyChange
from review.preview import Step
from review.text import clean, told_apart

OTHER_WEIGHTS = "serves other weights"
"""What is said of a model whose revision changes."""
OTHER_HOST = "answers under another host"
"""What is said of an entrance whose host changes."""
REPLACED = "replaced"
"""What is said of a resource that is made anew."""
ROUTINE = 2
"""The weight of what ends without data, access or answers being lost: a Job that runs again, a ConfigMap under a new name."""
PROTECTED = "it is protected: the engine refuses the whole update until its protection is taken off"
"""The consequence of ending what is protected: both engines refuse it before they change anything."""
_GOES = ("delete", "discard")
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """One warning. `weight` orders them: 0 loses data or access, 1 interrupts, 2 is routine."""

    weight: int
    what: str
    kind: str
    name: str
    urn: str
    cause: str
    consequence: str = ""

    @property
    def refused(self) -> bool:
        """Whether an engine refuses the whole update because of it."""
        return self.consequence.startswith(PROTECTED)


# (type, consequence of deleting, consequence of replacing, weight)
_KINDS: tuple[tuple[re.Pattern[str], str, str, int], ...] = tuple(
    (re.compile(pattern), gone, replaced, weight)
    for pattern, gone, replaced, weight in (
        (
            r"aws:s3.*:Bucket(V2)?$",
            "every object in the bucket is lost, or the deletion fails while it is not empty",
            "the new bucket is empty: copy the objects first",
            0,
        ),
        (r"aws:(efs|fsx).*:\w*FileSystem$", "every file on it is lost", "the new file system is empty: copy the files first", 0),
        (r"aws:ebs.*:Volume$", "the data on the volume is lost", "the new volume is empty", 0),
        (
            r"kubernetes:core/v1:PersistentVolumeClaim(Patch)?$",
            "the claim's data goes with it where the reclaim policy is Delete; weights have to be fetched again",
            "the new claim may bind another, empty volume; pods wait until it is bound",
            0,
        ),
        (
            r"kubernetes:core/v1:PersistentVolume$",
            "claims that are bound to it are lost",
            "claims that are bound to it are lost until they bind again",
            0,
        ),
        (
            r"kubernetes:core/v1:Namespace$",
            "everything in the namespace is deleted with it",
            "everything in the namespace is deleted and made anew",
            0,
        ),
        (r"aws:eks.*:Cluster$", "the cluster and everything on it is gone", "a new, empty cluster takes its place", 0),
        (
            r"aws:eks.*:NodeGroup$",
            "its machines go, and every pod on them with them",
            "all its machines are exchanged: every replica on them restarts, and accelerators may not be had again",
            1,
        ),
        (
            r"kubernetes:core/v1:Node$",
            "a machine goes, and every pod on it with it",
            "the machine leaves and comes back: its pods are evicted",
            1,
        ),
        (r"inferplan:nodes:NodePool$", "models that are placed on this pool find no node", "models on this pool restart", 1),
        (
            r"random:.*:Random(Password|Bytes|String)$",
            "what was derived from it stops working",
            "a new value is drawn: what was derived from it stops working",
            0,
        ),
        (
            r"kubernetes:core/v1:Secret$",
            "who uses a key or password in it is refused; pods that mount it do not start",
            "who uses a value that changes in it is refused; pods that mount it wait while it is exchanged",
            0,
        ),
        (
            r"kubernetes:(networking\.k8s\.io/v1:Ingress|gateway\.networking\.k8s\.io/v\w+:(HTTPRoute|Gateway))$",
            "its host stops answering",
            "its host does not answer while it is exchanged, and may get another address",
            0,
        ),
        (
            r"kubernetes:core/v1:Service$",
            "clients lose the address that they call",
            "it gets another cluster IP; a load balancer gets another address",
            1,
        ),
        (
            r"kubernetes:apps/v1:(Deployment|StatefulSet|DaemonSet)$",
            "its replicas stop",
            "all replicas stop before new ones start: no answers for as long as a start takes",
            1,
        ),
        (r"kubernetes:batch/v1:Job$", "the Job's pods stop", "the Job runs again", 2),
        (
            r"kubernetes:apiextensions\.k8s\.io/v1:CustomResourceDefinition$",
            "every object of this kind is deleted with it",
            "every object of this kind is deleted with it",
            0,
        ),
    )
)
_HOST = re.compile(r"(?:^|\.)(?:spec\.rules\[\d+\]\.host|spec\.tls\[\d+\]\.hosts(?:\[\d+\])?|spec\.hostnames(?:\[\d+\])?|spec\.host)$")
_REVISION = re.compile(r"(?:^|\.)weights\.revision$")
_SERVICE_FACE = re.compile(r"^(?:metadata\.name|spec\.type|spec\.clusterIP|spec\.ports\[\d+\]\.(?:port|nodePort))$")


def dangers_of(step: Step, changes: tuple[PropertyChange, ...]) -> Iterator[Danger]:
    """The warnings that `step` earns; `changes` are its property changes."""
    # What is in a component goes with it, and is told one by one.
    if (step.op in _GOES and step.old and step.old.custom) or step.op == "replace":
        yield _end(step, changes)
    if step.old and step.new and step.old.protect and not step.new.protect:
        yield _danger(step, 0, "loses its protection", "protect is taken off", "the next change may delete it without being refused")
    if step.old and step.new and step.old.retain_on_delete and not step.new.retain_on_delete:
        yield _danger(step, 0, "loses its protection", "retainOnDelete is taken off", "deleting it from the stack will delete it for real")
    if step.op not in ("same", "read", "create", *_GOES):
        yield from _meaning(step, changes)


def _end(step: Step, changes: tuple[PropertyChange, ...]) -> Danger:
    replaced = step.op == "replace"
    consequence, weight = "", ROUTINE
    for pattern, gone, anew, how_bad in _KINDS:
        if pattern.match(step.type):
            consequence, weight = (anew if replaced else gone), how_bad
            break
    if not replaced and (step.op == "discard" or (step.old and step.old.retain_on_delete)):
        consequence, weight = "it is only forgotten, and stays where it is", ROUTINE
    if step.old and step.old.protect and step.op != "discard":
        consequence, weight = f"{PROTECTED}; then {consequence}" if consequence else PROTECTED, 0
    cause = _cause(step, changes) if replaced else "no longer declared"
    return _danger(step, weight, REPLACED if replaced else "deleted", cause, consequence)


def _cause(step: Step, changes: tuple[PropertyChange, ...]) -> str:
    causing = [change for change in changes if change.replaces]
    if causing:
        return "; ".join(map(_turn, causing[:3])) + (f"; and {len(causing) - 3} more" if len(causing) > 3 else "")
    return f"{', '.join(map(clean, step.keys))} changes" if step.keys else "asked for, or marked for replacement"


def _meaning(step: Step, changes: tuple[PropertyChange, ...]) -> Iterator[Danger]:
    for change in changes:
        told = _turn(change)
        if _REVISION.search(change.path):
            yield _danger(step, 1, OTHER_WEIGHTS, told, "answers may change; the weights are fetched and every replica restarts")
        elif change.path == "spec.replicas" and change.new == "0":
            yield _danger(step, 1, "stops", told, "no replica answers")
        elif _HOST.search(change.path) and change.old:
            yield _danger(step, 0, OTHER_HOST, told, "clients that call the old host get no answer")
        elif step.type == "kubernetes:core/v1:Service" and step.op == "update" and _SERVICE_FACE.match(change.path) and change.old:
            yield _danger(step, 1, "is called another way", told, "clients that call it the old way get no answer")
    for owner, retired in _retired_keys(step):
        versions = ", ".join(map(str, retired))
        yield _danger(
            step, 0, "retires API keys", f"{owner}: version {versions} dropped", "clients that still use these keys are refused (401)"
        )


def _retired_keys(step: Step) -> Iterator[tuple[str, list[Any]]]:
    """Key versions that were valid and are not any more, by whose they are."""
    before, after = (_key_versions((state.inputs if state else None) or {}) for state in (step.old, step.new))
    for owner, versions in sorted(before.items()):
        retired = [each for each in versions if each not in after.get(owner, [])]
        if retired and step.type.endswith(":ApiKeys"):
            yield clean(owner), retired


def _key_versions(value: dict[str, Any], owner: str = "", depth: int = 0) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, item in value.items():
        if key == "keys" and isinstance(item, list):
            found[owner] = item
        elif isinstance(item, dict) and depth < 8:
            found |= _key_versions(item, key, depth + 1)
    return found


def _danger(step: Step, weight: int, what: str, cause: str, consequence: str) -> Danger:
    return Danger(
        weight=weight, what=what, kind=clean(step.kind), name=clean(step.name), urn=clean(step.urn), cause=cause, consequence=consequence
    )


def _turn(change: PropertyChange) -> str:
    old, new = told_apart(change.old, change.new, _LONGEST)
    if "\n" in change.old or "\n" in change.new:
        # A part of a file explains nothing; the property's table has it.
        return f"{change.path} changes"
    return f"{change.path}: {old or 'nothing'} → {new or 'nothing'}"


def once(dangers: Iterable[Danger]) -> list[Danger]:
    """A component and what it makes tell of the same weights or host: one warning is enough, the last and most concrete one."""
    kept: dict[tuple[str, str], Danger] = {}
    for each in dangers:
        subject = f"{each.urn} {each.cause}"
        if each.what == OTHER_WEIGHTS:
            subject = each.name
        elif each.what == OTHER_HOST:
            subject = each.cause.partition(": ")[2]
        kept[each.what, subject] = each
    return _protected_once(list(kept.values()))


def _protected_once(dangers: list[Danger]) -> list[Danger]:
    """One protected resource is enough to refuse an update: those of which there is nothing else to say are told as one."""
    alike = [each for each in dangers if each.consequence == PROTECTED]
    if len(alike) < 2:
        return dangers
    first = replace(alike[0], name=f"{alike[0].name} and {len(alike) - 1} more")
    return [*(each for each in dangers if each.consequence != PROTECTED), first]
