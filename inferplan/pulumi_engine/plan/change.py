"""Changes between two states of a resource with masked inputs: paths, and whether the provider
replaces the resource.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import itemgetter
from typing import Any, Literal

from inferplan.kube.differences import Parts, differences, parts_by_key
from inferplan.kube.paths import MISSING, Path, covers, leaves, order_of, parse, text_of
from inferplan.pulumi_engine.plan.states import ResourceState
from inferplan.pulumi_engine.providers import aws
from inferplan.pulumi_engine.providers.kubernetes import (
    is_autonamed,
    is_object,
    renamed,
    replaces,
    replacing_patterns,
)
from inferplan.pulumi_engine.values import UNKNOWN, Masked

Kind = Literal["add", "delete", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One path that differs; `replacing` if this change replaces the resource."""

    path: Path
    kind: Kind
    replacing: bool = False

    @property
    def text(self) -> str:
        return text_of(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one resource. `op` is `same`, `update` or `replace`."""

    op: Literal["same", "update", "replace"]
    differences: tuple[Difference, ...] = field(default=())
    delete_first: bool = False
    ignored: tuple[str, ...] = ()
    """The paths that differ but that `ignore_changes` covers: the resource keeps its old values
    there.
    """


def _differences(old: Any, new: Any) -> Iterator[tuple[Path, Kind, Any]]:
    """Each path at which `old` and `new` differ, with the kind of change and the new (or removed)
    value.
    """
    for path, before, after in differences(old, new, parts=_paired, equal=_are_equal):
        kind: Kind = "add" if before is MISSING else "delete" if after is MISSING else "update"
        yield path, kind, before if kind == "delete" else after


def _paired(old: Any, new: Any) -> Parts | None:
    if isinstance(old, Masked) and isinstance(new, Masked):
        old, new = old.fields, new.fields
    if isinstance(old, list) and isinstance(new, list):
        pairs = zip_longest(old, new, fillvalue=MISSING)
        return [(index, *pair) for index, pair in enumerate(pairs)]
    pairs = parts_by_key(old, new)
    return pairs and sorted(pairs, key=itemgetter(0))


def _are_equal(old: Any, new: Any) -> bool:
    if isinstance(old, Masked) and isinstance(new, Masked):
        return old.digest == new.digest
    return type(old) is type(new) and old == new


def compare(
    old: ResourceState,
    new: ResourceState,
    *,
    provider: Mapping[str, Any],
    renewed: Collection[str] = (),
) -> Change:
    """The change from `old` to `new` for the provider's inputs; `renewed` names inputs whose
    unknown values will differ.
    """
    kubernetes = is_object(new.type, new.inputs)
    before, after = (
        (_canonical(old.inputs), _canonical(new.inputs)) if kubernetes else (old.inputs, new.inputs)
    )
    if kubernetes and is_autonamed(before) and is_autonamed(after):
        after = renamed(
            after, before["metadata"]["name"]
        )  # the provider keeps the name of the existing object
    patterns = replacing_patterns(after, provider=provider) if kubernetes else ()
    patterns += aws.replacing_patterns(new.type) + aws.lowered_patterns(new.type, before, after)
    patterns += tuple(parse(text) for text in new.replace_on_changes)
    ignored = tuple(parse(text) for text in new.ignore_changes)
    differing = tuple(_with_renewed(_differences(before, after), after, renewed))
    kept = tuple(
        text_of(path)
        for path, _, _ in differing
        if any(covers(pattern, path) for pattern in ignored)
    )
    changes = tuple(
        Difference(path=path, kind=kind, replacing=replaces(patterns, path, value))
        for path, kind, value in differing
        if not any(covers(pattern, path) for pattern in ignored)
    )
    if not changes:
        return Change(op="same", ignored=kept)
    if not any(each.replacing for each in changes):
        return Change(op="update", differences=changes, ignored=kept)
    # The provider deletes first if the new object has the same name (Diff in provider.go).
    keeps_name = (
        kubernetes
        and not is_autonamed(after)
        and not any(each.path[0] == "metadata" and each.replacing for each in changes)
    )
    return Change(
        op="replace",
        differences=changes,
        delete_first=keeps_name or new.delete_before_replace,
        ignored=kept,
    )


def _with_renewed(
    changes: Iterator[tuple[Path, Kind, Any]], after: Mapping[str, Any], renewed: Collection[str]
) -> Iterator[tuple[Path, Kind, Any]]:
    seen = set()
    for path, kind, value in changes:
        seen.add(path)
        yield path, kind, value
    for name in sorted(renewed):
        unknown = [path for path, value in leaves(after.get(name), (name,)) if _is_unknown(value)]
        for path in sorted(unknown, key=order_of):
            if path not in seen:
                yield path, "update", UNKNOWN


def _is_unknown(value: Any) -> bool:
    return value is UNKNOWN or (isinstance(value, Masked) and not value.digest)


def _canonical(inputs: Mapping[str, Any]) -> dict[str, Any]:
    # As the provider before it compares: `stringData` becomes `data`, an absent namespace is
    # `default`.
    canonical = dict(inputs)
    if canonical.get("kind") == "Secret" and "stringData" in canonical:
        texts = canonical.pop("stringData")
        data = canonical.get("data")
        canonical["data"] = {**_parts(data), **_parts(texts)}
    metadata = canonical.get("metadata")
    if isinstance(metadata, dict) and metadata.get("namespace") == "default":
        canonical["metadata"] = {
            key: value for key, value in metadata.items() if key != "namespace"
        }
    return canonical


def _parts(data: Any) -> dict[str, Any]:
    if isinstance(data, Masked):
        return dict(data.fields or {})
    return dict(data) if isinstance(data, dict) else {}
