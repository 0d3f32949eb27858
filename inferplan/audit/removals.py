"""Judges manifests for a later version of Kubernetes by a table of upstream's announcements
(`removals.toml`).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from inferplan.audit.manifest import Manifest
from inferplan.audit.templates import places
from inferplan.kube.paths import text_of
from inferplan.tables import table

_TABLE: Final = table("audit/removals.toml")
VERSIONS: Final = tuple(_TABLE["versions"])
"""The versions that the table knows, the one of the simulated cluster first."""


def removed(manifests: Iterable[Manifest], target: str) -> Iterator[tuple[str, Manifest, str, str]]:
    """Code, manifest, field and reason of everything that is removed or deprecated in the version
    `target`.
    """
    for manifest in manifests:
        for row in _TABLE["rows"]:
            gone, old = (
                _number(row.get(name, "9.0")) <= _number(target)
                for name in ("removed", "deprecated")
            )
            state = (
                f"removed in {row.get('removed')}"
                if gone
                else f"deprecated since {row.get('deprecated')}"
            )
            words = "; ".join(
                filter(None, (f"judged by table: {state}", row.get("words"), f"use {row['use']}"))
            )
            for path, value in places(manifest.body, row) if gone or old else ():
                if row.get("value", value) == value:
                    yield "removed" if gone else "deprecated", manifest, text_of(path), words


def dropped(manifest: Manifest, version: str) -> Iterator[str]:
    """Yield the fields that an API server of `version` drops and the simulated one keeps."""
    for row in _TABLE["early"]:
        if _number(version) < _number(row["since"]):
            yield from (text_of(path) for path, _ in places(manifest.body, row))


def unknown_of_nodes(target: str) -> Iterator[str]:
    """The needs of the version `target` that neither a nodes file nor the simulated cluster shows."""
    return (
        f"judged by table: {row['words']}"
        for row in _TABLE["nodes"]
        if _number(row["since"]) <= _number(target)
    )


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.removeprefix("v").split(".")[:2]))
