"""Pods that come later, such as those of a CronJob or of a workload without replicas: one pod of each
template is created in a namespace of its own, judged and removed.
"""

import copy
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from inferplan.audit.aside import empty_copies, inside, remove
from inferplan.audit.blame import blamed_field
from inferplan.audit.deployed import Change
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.placement import restrictions
from inferplan.audit.session import Session
from inferplan.audit.templates import select, templates
from inferplan.kube.api import ApiError
from inferplan.kube.paths import Path, mapping, value_at
from inferplan.kube.quantity import amount
from inferplan.rehearsal.apply.operators.stub import KEPT
from inferplan.rehearsal.wait.object_events import Key
from inferplan.rehearsal.wait.reasons import pods_of
from inferplan.review.findings import Finding
from inferplan.tables import table

_TABLE: Final = table("audit/trials.toml")
_NAME: Final = _TABLE["name"]
_TAINT: Final = _TABLE["taint"]
_QUOTA: Final = re.compile(_TABLE["quota"])


@dataclass(kw_only=True)
class _Trial:
    """One pod of the template at `path` of an object; `reason` says why it does not start."""

    key: Key
    manifest: Manifest
    path: Path
    template: Object
    declared: Collection[Key]
    pod: Key = field(default_factory=lambda: Key("Pod", "", ""))
    reason: str = ""
    is_crowded: bool = False
    """True if it starts on the same nodes without the pods that run."""


def tried(change: Change, hooks: Iterable[Manifest], limit: float) -> list[Finding]:
    """The findings on pods of templates that no pod of the cluster has, and on those of `hooks`
    that were left out.
    """
    session = change.session
    trials = [*_untried(change, hooks)]
    for each in trials:
        each.reason, each.is_crowded = _rejection(session, each)
    if waiting := [each for each in trials if not each.reason]:
        session.put(_TABLE["lowest"])
        _start(session, waiting, limit)
    if late := [each for each in waiting if each.reason]:
        reasons = [each.reason for each in late]
        copies = [*empty_copies(change.nodes, _NAME, _TAINT)]
        for each in copies:
            session.put(each)
        _start(session, late, limit)
        for each, reason in zip(late, reasons, strict=True):
            each.is_crowded, each.reason = not each.reason, reason
        for each in copies:
            remove(session, each["apiVersion"], Key(each["kind"], "", each["metadata"]["name"]))
    return [found for each in trials if each.reason for found in _judged(change, each)]


def _untried(change: Change, hooks: Iterable[Manifest]) -> Iterator[_Trial]:
    session, left_out = change.session, {change.session.key(each): each for each in hooks}
    present = {
        key: manifest
        for key, manifest, _ in change.each()
        if key not in change.new.unready or manifest.spec.get("suspend")
    }
    for key, manifest in (present | left_out).items():
        for path, template in templates(manifest.body):
            again = _is_restricted_anew(change, template)
            if key in left_out or again or not _has_pods(session, key, manifest, path):
                yield _Trial(
                    key=key,
                    manifest=manifest,
                    path=path,
                    template=template,
                    declared=left_out.keys(),
                )


def _is_restricted_anew(change: Change, template: Object) -> bool:
    """True if the RuntimeClass of the pods changed: those that run may be older than the change."""
    name = str(mapping(template, "spec").get("runtimeClassName"))
    key = Key("RuntimeClass", "", name)
    return key in change.new.manifests and not (change.first or change.same(key))


def _has_pods(session: Session, key: Key, manifest: Manifest, path: Path) -> bool:
    """True if pods of the template at `path` exist, or if another finding is about their absence;
    those of an older template do not count.
    """
    above, strategy = value_at(manifest.body, path[:-1]), mapping(manifest.spec, "updateStrategy")
    replicas = mapping(above).get("replicas", mapping(above).get("minReplicas", 1))
    waits = strategy.get("type") == "OnDelete" or mapping(strategy, "rollingUpdate").get(
        "partition"
    )
    if key.kind == "PodTemplate" or replicas == 0 or manifest.spec.get("paused") or waits:
        return False
    live = session.watching.get(key)
    if key.kind in ("Pod", "DaemonSet") or key in session.stubs:
        return not session.stubs.get(key, "").endswith(KEPT)
    return live is not None and bool(pods_of(session.watching, live))


def _rejection(session: Session, trial: _Trial) -> tuple[str, bool]:
    """Why the API server rejects the pod in the namespace of its object, and whether that is only
    because of pods that run.
    """
    namespace = trial.key.namespace or session.namespace
    body = _pod(trial, namespace, _spec(trial))
    account = Key("ServiceAccount", namespace, str(body["spec"].get("serviceAccountName")))
    if session.get(account, "v1") is None and account in trial.declared:
        del body["spec"]["serviceAccountName"]
    path = session.api.resource("v1", "Pod").path(namespace)
    try:
        session.api.request("POST", path, body, query={"dryRun": "All"})
    except ApiError as error:
        if error.status in (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY):
            return error.message, _fits_alone(error.message)
    return "", False


def _fits_alone(message: str) -> bool:
    """True if a quota has room for a pod that it rejects because of others."""
    match = _QUOTA.search(message)
    asked, limits = (
        {name: value for name, _, value in (each.partition("=") for each in text.split(","))}
        for text in (match.groups() if match else ("", ""))
    )
    amounts = [(amount(asked[name]), amount(limits.get(name, ""))) for name in asked]
    return bool(amounts) and all(own and limit and own <= limit for own, limit in amounts)


def _pod(trial: _Trial, namespace: str, spec: Object) -> Object:
    metadata = {
        name: mapping(trial.template, "metadata", name) for name in ("labels", "annotations")
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "name": _NAME, "namespace": namespace},
        "spec": spec,
    }


def _spec(trial: _Trial) -> Object:
    """The spec of the template, with the volumes of a StatefulSet's claim templates."""
    spec = copy.deepcopy(mapping(trial.template, "spec"))
    for each in trial.manifest.spec.get("volumeClaimTemplates") or ():
        name = each["metadata"]["name"]
        volume = {"name": name, "persistentVolumeClaim": {"claimName": name}}
        spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    return spec


def _start(session: Session, trials: list[_Trial], limit: float) -> None:
    """Create the pod of each of `trials`, wait until it starts, and remove it. Sets `reason`."""
    spaces = {f"{_NAME}-{each.key.namespace or session.namespace}" for each in trials}
    for name in sorted(spaces):
        session.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        session.put(inside("v1", "ServiceAccount", "default", name, {}))
    for index, each in enumerate(trials):
        name = f"{_NAME}-{each.key.namespace or session.namespace}"
        each.pod, each.reason = Key("Pod", name, f"{_NAME}-{index}"), ""
        body = _pod(each, name, _alone(session, each))
        body["metadata"]["name"] = each.pod.name
        try:
            session.put(body)
        except ApiError as error:
            each.reason = error.message
    pods = {each.pod: each for each in trials if not each.reason}
    for key, reason in session.settle([("v1", key) for key in pods], limit).items():
        pods[key].reason = reason.replace(f"pod {key.name}: ", "")
    for key in pods:
        remove(session, "v1", key)


def _alone(session: Session, trial: _Trial) -> Object:
    """The spec of the pod in the namespace of a trial, where it displaces no other pod; what it
    names in its own namespace is copied.
    """
    spec = {name: each for name, each in _spec(trial).items() if name not in _TABLE["left_out"]}
    spec |= {"priorityClassName": _NAME, "preemptionPolicy": "Never"}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), {**_TAINT, "operator": "Exists"}]
    owner, own = trial.key.namespace or session.namespace, trial.pod.namespace
    for _, term in (
        match for pattern in _TABLE["affinities"] for match in select(spec, f"affinity.{pattern}")
    ):
        if isinstance(term, dict) and not term.keys() & {"namespaces", "namespaceSelector"}:
            term["namespaces"] = [owner, own]
    for each in trial.manifest.spec.get("volumeClaimTemplates") or ():
        name, body = each["metadata"]["name"], {"spec": each["spec"]}
        session.put(inside("v1", "PersistentVolumeClaim", name, own, body))
    for kind, version, pattern in _TABLE["copied"]:
        for _, name in select(spec, pattern):
            live = session.get(Key(kind, owner, str(name)), version)
            if live is not None:
                _copy(session, kind, version, live, own)
    return spec


def _copy(session: Session, kind: str, version: str, live: Object, namespace: str) -> None:
    """Copy an object, and the volume of a claim, into `namespace`."""
    name, spec = live["metadata"]["name"], dict(live["spec"])
    if volume := session.get(Key("PersistentVolume", "", str(spec.pop("volumeName", ""))), "v1"):
        spec["volumeName"] = f"{namespace}-{name}"
        reference = {"apiVersion": "v1", "kind": kind, "name": name, "namespace": namespace}
        body = {"spec": {**volume["spec"], "claimRef": reference}}
        session.put(inside("v1", "PersistentVolume", spec["volumeName"], "", body))
    session.put(inside(version, kind, name, namespace, {"spec": spec}))


def _judged(change: Change, trial: _Trial) -> Iterator[Finding]:
    key, manifest, before = trial.key, trial.manifest, change.old.manifests.get(trial.key)
    others = [*restrictions(change, key, manifest, trial.reason)]
    lost = any(_is_named(other, key, trial.reason) for other in change.new.deleted)
    same = before is not None and change.same(key, "spec") and not others and not lost
    code = "old" if same else "crowded" if trial.is_crowded else "later"
    blamed = blamed_field(trial.reason, manifest, before, change.nodes)
    words = " next to the pods that run" if trial.is_crowded else ""
    session = change.session
    exists = key in session.stubs or _has_pods(session, key, manifest, trial.path)
    so_far = (
        "its pods are older than the change" if exists else "no pod of this template exists yet"
    )
    reason = f"{so_far}, and one that was tried does not start{words}: {trial.reason}"
    yield finding(code, key, blamed, reason, manifest)
    yield from others


def _is_named(other: Key, key: Key, reason: str) -> bool:
    """True if `reason`, why a pod of `key` does not start, names the object `other`."""
    near = other.namespace in ("", key.namespace)
    return near and re.search(rf"(?<![\w.-]){re.escape(other.name)}(?![\w.-])", reason) is not None
