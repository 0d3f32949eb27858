"""Why pods of an object are not placed or not created: the field to look at, and old pods that hold the accelerators they need."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.merge import differences
from inferplan.audit.session import Session
from inferplan.audit.templates import containers, references, requests_of, templates
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import Path, mapping, parse, text_of, values_at
from inferplan.kube.quantity import amount, number
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.rehearsal.engine.wait.reasons import pods_of
from inferplan.tables import table

_INSUFFICIENT = re.compile(r"(?:Insufficient |requested: (?:requests|limits)\.)([\w./-]+\w)")
_TABLE: Final = table("audit/placement.toml")


def blamed_field(reason: str, manifest: Manifest, old: Manifest | None) -> str:
    """The field of `manifest` that explains `reason`; one that changed since `old` comes first."""
    paths = [path for path, _ in templates(manifest.body)] or [()]
    resources = [each for each in _INSUFFICIENT.findall(reason) if vendor_of(each)] or _INSUFFICIENT.findall(reason)
    amounts = [
        text_of((*path, "resources", part, name))
        for name in resources
        for path, container in containers(manifest.body)
        for part in ("limits", "requests")
        if name in mapping(container, "resources", part)
    ]
    amounts += _limited(reason, manifest)
    late, early = (
        [f"{text_of((*path, 'spec'))}.{name}" for words, name in _TABLE[part].items() if re.search(words, reason) for path in paths]
        for part in ("late", "fields")
    )
    fields = [*(each.field for each in references(manifest.body) if f"{each.kind} {each.name} " in reason), *late, *amounts, *early]
    # A pod that names no node selector may have an affinity.
    affinities = {each: each.removesuffix("nodeSelector") + "affinity" for each in fields if each.endswith("nodeSelector")}
    fields = [affinities[each] if each in affinities and not _value(manifest, each) else each for each in fields]
    if not fields:
        return text_of((*paths[0], "spec")) if paths[0] or manifest.kind == "Pod" else changed_field(manifest, old, reason)
    return next((each for each in fields if old is not None and _value(old, each) != _value(manifest, each)), fields[0])


def changed_field(manifest: Manifest, old: Manifest | None, reason: str) -> str:
    """The first field of the specification that changed since `old`; of a new object, the one with the longest text that `reason` names."""
    if changed := next((each for each in (differences(old.body, manifest.body) if old else ()) if each.startswith("spec")), ""):
        return changed
    named = [
        (len(text), path) for path, text in _texts(manifest.spec, ("spec",)) if re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", reason)
    ]
    return text_of(max(named, key=lambda each: each[0])[1]) if named else "spec"


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """The texts in `value` with their paths, without kinds and API groups, which every message names."""
    if isinstance(value, str) and value and path[-1] not in ("kind", "group", "apiVersion"):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _texts(each, (*path, key))


def _limited(reason: str, manifest: Manifest) -> Iterator[str]:
    """The resources of the container that a quota or a LimitRange is about."""
    names = re.findall(r"must specify [\w./-]+ for: ([\w-]+)", reason)
    amounts = re.findall(r"(?:maximum|minimum) ([\w./-]+) usage per \w+ is [^,]+, but (limit|request) is (\w+)", reason)
    for path, container in containers(manifest.body):
        if container.get("name") in names:
            yield text_of((*path, "resources"))
        for name, part, value in amounts:
            if amount(str(mapping(container, "resources", f"{part}s").get(name))) == amount(value):
                yield text_of((*path, "resources", f"{part}s", name))
    if names or re.search(r"per Container|must specify", reason):
        yield from (text_of((*path, "resources")) for path, _ in containers(manifest.body))


def _value(manifest: Manifest, field: str) -> Any:
    return values_at(manifest.body, parse(field))


def blocking_pods(session: Session, key: Key, manifest: Manifest, before: Manifest | None, reason: str) -> str:
    """The old pods that hold what pending pods of `key` need by `reason` and would get, as a clause; "" if there are none."""
    field = blamed_field(reason, manifest, before)
    what = next((what for words, what in _TABLE["held"].items() if re.search(words, reason)), "")
    # A rule that the change itself adds is to blame, not the old pods.
    is_old = before is not None and _value(before, field) == _value(manifest, field)
    # Pods of one workload need the same.
    for pod in {str(requests_of(each["spec"])): each for each in _pods(session, key) if not each["spec"].get("nodeName")}.values():
        older = [each for each in session.watching.known("Pod") if each["spec"].get("nodeName") and _is_older(each, pod, manifest)]
        held = {what: [each["metadata"]["name"] for each in older]} if what and is_old else {}
        wanted = {name: count for name, count in requests_of(pod["spec"]).items() if f"Insufficient {name}" in reason}
        held |= {name: _held_by_old(session, older, name, count) for name, count in wanted.items()}
        for resource, names in held.items():
            if names:
                return f"{', '.join(sorted(names))} hold{'s' if len(names) == 1 else ''} {resource} until a new pod is Ready"
    return ""


def pods_of_others(session: Session, key: Key, left: Mapping[Key, Manifest]) -> str:
    """The pods of workloads that stay although they are no longer declared, if they hold accelerators that `key` needs; "" otherwise."""
    wanted = {name for pod in _pods(session, key) if not pod["spec"].get("nodeName") for name in requests_of(pod["spec"])}
    holders = {str(other) for other in left for pod in _pods(session, other) if wanted & requests_of(pod["spec"]).keys()}
    return f"{', '.join(sorted(holders))}, which is no longer declared, still holds {', '.join(sorted(wanted))}" if holders else ""


def _held_by_old(session: Session, older: list[Object], resource: str, count: int) -> list[str]:
    """Those of the pods `older` that are on a node where a pod with `count` of `resource` would fit without them."""
    used: Counter[str] = Counter()
    for each in session.watching.known("Pod"):
        used[each["spec"].get("nodeName", "")] += requests_of(each["spec"])[resource]
    for node in session.watching.known("Node"):
        here = node["metadata"]["name"]
        free = number(mapping(node, "status", "allocatable").get(resource), 0) - used[here]
        holds = {each["metadata"]["name"]: requests_of(each["spec"])[resource] for each in older if each["spec"]["nodeName"] == here}
        if free < count <= free + sum(holds.values()):
            return [name for name, each in holds.items() if each]
    return []


def _is_older(other: Object, pod: Object, manifest: Manifest) -> bool:
    """True if `other` is a pod of an earlier revision of the same workload, or of a workload that stays only until the change is done."""
    theirs, labels = mapping(other, "metadata", "labels"), mapping(pod, "metadata", "labels")
    newer = [each for each in ("pod-template-hash", "controller-revision-hash") if theirs.get(each, labels.get(each)) != labels.get(each)]
    selector = mapping(manifest.spec, "selector", "matchLabels") or {name: each for name, each in labels.items() if name not in newer}
    same = other["metadata"].get("namespace") == pod["metadata"].get("namespace") and selector.items() <= theirs.items()
    return same and any(each in labels for each in newer)


def _pods(session: Session, key: Key) -> list[Object]:
    live = session.watching.get(key)
    return pods_of(session.watching, live) if live else []
