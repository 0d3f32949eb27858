"""Autoscalers that cannot scale."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.templates import select, templates
from inferplan.kube.paths import Path, mapping, text_of
from inferplan.rehearsal.wait.object_events import Key
from inferplan.rehearsal.wait.reasons import pods_of
from inferplan.review.findings import Finding

_KIND: Final = "HorizontalPodAutoscaler"
_UNSCALABLE: Final = ("DaemonSet", "Job", "CronJob", "Pod")
"""Kinds of Kubernetes that have pods and no scale subresource."""


def unscalable(change: Change) -> Iterator[Finding]:
    """Autoscalers that cannot scale: of a kind without scale, of pods that another one
    scales too, or by a share of a request that the pods do not have.
    """
    before = {(key, reason) for key, _, _, reason in _problems(change, change.old)}
    for key, owner, field, reason in _problems(change, change.new):
        known = change.first or (key, reason) in before
        manifest = change.new.manifests[owner]
        yield finding("old" if known else "unscaled", owner, field, reason, manifest)


def _problems(change: Change, deployed: Deployed) -> Iterator[tuple[Key, Key, str, str]]:
    """Each autoscaler with a problem, the object that is to blame, its field and the reason."""
    scaled = {
        key: (manifest, Key(str(target.get("kind")), key.namespace, str(target.get("name"))))
        for key, manifest in deployed.manifests.items()
        if key.kind == _KIND and (target := mapping(manifest.spec, "scaleTargetRef"))
    }
    for key, (manifest, target) in scaled.items():
        workload = deployed.manifests.get(target)
        if target.kind in _UNSCALABLE:
            reason = f"FailedGetScale: a {target.kind} has no scale subresource"
            yield key, key, "spec.scaleTargetRef.kind", reason
        if workload is None:
            continue
        for other, (_, shared) in scaled.items():
            pods = deployed.selected(key.namespace, mapping(workload.spec, "selector"))
            if shared != target and shared in pods:
                reason = (
                    f"AmbiguousSelector: the selector of {target} also selects the pods of"
                    f" {shared}, which {other} scales, so neither autoscaler works"
                )
                yield key, key, "spec.scaleTargetRef", reason
        for index, name, container in _shares(manifest):
            for path, reason in _unrequested(change, deployed, target, name, container):
                words = f"FailedGetResourceMetric: {reason}, but {key} computes a share of it"
                is_own = deployed is change.new and not change.same(key)
                field = f"spec.metrics[{index}]" if is_own else text_of(path)
                yield key, key if is_own else target, field, words


def _shares(manifest: Manifest) -> Iterator[tuple[int, str, str]]:
    """The metrics that are a share of a request: index, resource, and container, "" for all."""
    for index, each in enumerate(manifest.spec.get("metrics") or ()):
        for kind in ("resource", "containerResource"):
            source = mapping(each, kind)
            if "averageUtilization" in mapping(source, "target"):
                yield index, str(source.get("name")), str(source.get("container") or "")


def _unrequested(
    change: Change, deployed: Deployed, target: Key, name: str, container: str
) -> Iterator[tuple[Path, str]]:
    """The containers of `target` without a request of `name`, and why; those of its pods have the
    defaults of a LimitRange.
    """
    watching = change.session.watching
    live = watching.get(target) if deployed is change.new else None
    running = [each["spec"] for each in pods_of(watching, live)] if live else []
    for path, template in templates(deployed.manifests[target].body):
        several = dict(select(template, "spec.containers.*"))
        names = [str(each.get("name")) for each in several.values()]
        if container and container not in names:
            yield (*path, "spec", "containers"), f"its pods have no container {container!r}"
        for inner, each in several.items():
            if container in ("", each.get("name")) and each.get("name") not in _requesting(
                running or [mapping(template, "spec")], name
            ):
                reason = f"container {each.get('name')} has no {name} request"
                yield (*path, *inner, "resources"), reason


def _requesting(pods: Iterable[Object], name: str) -> set[Any]:
    """The containers of `pods` that request `name`, by their names."""
    return {
        each.get("name")
        for pod in pods
        for _, each in select(pod, "containers.*")
        if name in mapping(each, "resources", "requests") | mapping(each, "resources", "limits")
    }
