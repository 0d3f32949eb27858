"""Which field of a manifest explains the words of the scheduler, the API server or an operator."""

import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.merge import differences
from inferplan.audit.nearest import obstacle
from inferplan.audit.templates import containers, references, select, templates
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import Path, leaves, mapping, parse, text_of, values_at
from inferplan.kube.quantity import amount
from inferplan.tables import table

_TABLE: Final = table("audit/placement.toml")
_INSUFFICIENT: Final = re.compile(r"(?:Insufficient |requested: (?:requests|limits)\.)([\w./-]+\w)")
_LACKING: Final = re.compile(r"([\w./-]+) for: ([\w,.-]+)")
_EXTREME: Final = re.compile(
    r"(?:maximum|minimum) ([\w./-]+) usage per \w+ is [^,]+, but (limit|request) is (\w+)"
)
_REJECTION: Final = re.compile(r"forbidden|denied|invalid", re.IGNORECASE)
_OF_NODES: Final = re.compile("(olume|Volume's) node affinity")
_OF_POD: Final = re.compile(r"(?<![\w.])spec\.[\w.\[\]]+")
_OF_NAME: Final = re.compile(r'Pod "[^"]+" is invalid: metadata\.labels')
"""Labels that a controller derives from its object's name."""
_DISK: Final = "spec.volumeClaimTemplates.*.spec.resources.requests.storage"
_CLASS: Final = "spec.volumeClaimTemplates.*.spec.storageClassName"
_COUNTS: Final = ("replicas", "parallelism", "minReplicas", "size")
_SHORTEST_WORD: Final = 4


def blamed_field(
    reason: str, manifest: Manifest, old: Manifest | None, nodes: Sequence[Object] = ()
) -> str:
    """The field of `manifest` that explains `reason`: one that changed since `old` comes first, then
    one that alone keeps the pods from the nearest of `nodes`.
    """
    paths = [path for path, _ in templates(manifest.body)]
    named = [
        each.field for each in references(manifest.body) if f"{each.kind} {each.name} " in reason
    ]
    early = list(_by_table("fields", reason, manifest, paths))
    if _OF_NAME.search(reason):
        return "metadata.name"
    if paths and 'Pod "' in reason and (field := _OF_POD.search(reason)):
        return text_of((*paths[0], "spec")).removesuffix("spec") + field[0].rstrip(".")
    fields = [
        *named,
        *(text_of(path) for path, _ in select(manifest.body, _CLASS) if _OF_NODES.search(reason)),
        *_by_table("late", reason, manifest, paths),
        *_amounts(reason, manifest),
        *early,
    ]
    changed = list(differences(old.body, manifest.body)) if old else []
    pod = text_of((*paths[0], "spec")) if paths else ""
    if not fields and any(paths) and "exceeded quota" in reason:
        # A quota may count the pods of one priority.
        counts = (f"spec.{each}" for each in _COUNTS if each in manifest.spec)
        return (
            f"{pod}.priorityClassName"
            if f"{pod}.priorityClassName" in changed
            else next(counts, "spec.replicas")
        )
    if not fields:
        in_pod = not changed or any(
            each.startswith(pod) or pod.startswith(each) for each in changed
        )
        return (
            pod
            if pod and in_pod and not _REJECTION.search(reason)
            else named_field(reason, manifest, old)
        )
    # More pods of the same template need more room, too.
    fields += [each for each in changed if each.rpartition(".")[2] in _COUNTS]
    before = old.body if old else manifest.body
    fields = [
        each
        for each in fields
        if values_at(before, parse(each)) != values_at(manifest.body, parse(each))
    ] or fields
    specs = [mapping(each, "spec") for _, each in templates(manifest.body)]
    near = {obstacle(each, nodes) for each in specs if "nodes are available" in reason}
    return next((each for each in fields if near & set(parse(each))), fields[0])


def named_field(reason: str, manifest: Manifest, old: Manifest | None) -> str:
    """The field that `reason` names by its text or its own name, of those that changed since `old`
    or of a new object; else the first change.
    """
    changed = [
        each
        for each in differences(old.body if old else {}, manifest.body)
        if each not in ("apiVersion", "kind", "status")
    ]
    paths = [parse(each) for each in changed]
    values = [
        leaf
        for path in paths
        for leaf in leaves(values_at(manifest.body, path), path)
        if _is_meant(leaf[0], reason)
    ]
    changed = [each for each in changed if not each.startswith("metadata")]
    score, path = max(
        ((_likeness(reason, *each), each[0]) for each in values),
        key=operator.itemgetter(0),
        default=((0, 0), ()),
    )
    if any(score):
        return text_of(path)
    return changed[0] if old and changed else "spec" if "spec" in manifest.body else ""


def _is_meant(path: Path, reason: str) -> bool:
    """False for metadata, but for a label or annotation that `reason` names, and for those of Pod
    Security.
    """
    return (
        path[0] != "metadata"
        or (str(path[-1]) in reason and "/" in str(path[-1]))
        or "pod-security" in str(path[-1])
    )


def _likeness(reason: str, path: Path, value: Any) -> tuple[int, int]:
    """The lengths of the value and of the words of its field's name that `reason` names; kinds and
    API groups are in every message.
    """
    name = next((each for each in reversed(path) if isinstance(each, str)), "")
    words = [
        name,
        *(each for each in re.findall(r"[A-Z]?[a-z]+", name) if len(each) >= _SHORTEST_WORD),
    ]
    text = value if isinstance(value, str) and name not in ("kind", "group", "apiVersion") else ""
    named = len(text) if text and _is_named(text, reason) else 0
    spelled = sum(len(each) for each in words if _is_named(each, reason))
    return (0, named + spelled) if name == "type" else (named, spelled)


def _is_named(text: str, reason: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", reason, re.IGNORECASE) is not None


def _by_table(part: str, reason: str, manifest: Manifest, paths: list[Path]) -> Iterator[str]:
    """The fields of pod templates at `paths` that the table names for `reason`; those whose value
    the reason quotes come first.
    """
    for row in (row for words, row in _TABLE[part].items() if re.search(words, reason)):
        patterns = row.split("|")
        for path in ((*path, "spec") for path in paths or [()]):
            fields = [
                each
                for pattern in patterns
                for each in select(values_at(manifest.body, path), pattern, path)
            ]
            fields.sort(
                key=lambda each: (
                    not any(
                        _is_named(str(text), reason)
                        for text in (each[1], _item_name(manifest, each[0]))
                    )
                )
            )
            yield from (text_of(inner) for inner, _ in fields)
            if row == "@labels" and paths:
                yield f"{text_of(path).removesuffix('spec')}metadata.labels"
            elif not fields and paths:
                yield f"{text_of(path)}.{patterns[-1].replace('.*', '[0]')}"


def _item_name(manifest: Manifest, path: Path) -> Any:
    """The name of the volume or container in which `path` ends."""
    last = max((index for index, each in enumerate(path) if isinstance(each, int)), default=-1)
    return values_at(manifest.body, (*path[: last + 1], "name"))


def _amounts(reason: str, manifest: Manifest) -> Iterator[str]:
    """The resources of containers that nodes lack, or that a quota or a LimitRange is about."""
    several = list(containers(manifest.body))
    resources = sorted(_INSUFFICIENT.findall(reason), key=lambda each: not vendor_of(each))
    amounts = [(part, name, None) for name in resources for part in ("limits", "requests")]
    amounts += [(f"{part}s", name, amount(value)) for name, part, value in _EXTREME.findall(reason)]
    if "forbidden" in reason and "persistentvolumeclaims" in reason:
        yield from (text_of(path) for path, _ in select(manifest.body, _DISK))
    for part, name, value in amounts:
        for path, container in several:
            own = mapping(container, "resources", part).get(name)
            if own is not None and value in (None, amount(str(own))):
                yield text_of((*path, "resources", part, name))
    for path, container in several:
        lacking = [
            name
            for name, owners in _LACKING.findall(reason)
            if container.get("name") in owners.split(",")
        ]
        if len(lacking) == 1:
            # A quota of `cpu` counts requests.
            yield text_of(
                (
                    *path,
                    "resources",
                    *(lacking[0].split(".", 1) if "." in lacking[0] else ("requests", *lacking)),
                )
            )
        elif lacking:
            yield text_of((*path, "resources"))
    if re.search(r"per Container|must specify", reason):
        yield from (text_of((*path, "resources")) for path, _ in several)
