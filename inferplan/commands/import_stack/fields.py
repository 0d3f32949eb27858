"""A model server of others, and how values are taken out of its document, so that the paths of the
rest are known.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplan.commands.import_stack.commands import Option
from inferplan.documents.yaml_tree import Node, find
from inferplan.kube.paths import MISSING, Path, leaves, mapping, parse, text_of, value_at
from inferplan.tables import table

_TABLE = table("commands/import_stack/servers.toml")
_LOSSES = _TABLE["losses"]
_OWN = re.compile(_TABLE["commands"]["own"])
COMMIT = re.compile("[0-9a-f]{40}")
REPOSITORY = re.compile(r"(?:hf://)?([\w.-]+/[\w.-]+?)(?::([0-9a-f]{40}))?")
"""A repository of a hub, with its revision."""
UNKNOWN_WEIGHTS = "it is neither a repository of a hub nor a path of a claim with a valid name"


@dataclass(kw_only=True)
class Source:
    """A document and the lines of its fields. `left` lists what was not taken, each with its group
    and by path: values may be secrets.

    `rejections` are the entries of `left` that can be why nothing of the document is carried over.
    `lines` are the lines before the document, `prefix` leads to its part, and `label` stands before
    the paths of a text in a field.
    """

    file: str
    lines: int
    root: Node | None
    prefix: Path = ()
    label: str = ""
    left: list[tuple[str, str]] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)

    def line(self, path: Path) -> int:
        return self.lines + (find(self.root, (*self.prefix, *path))[1].line if self.root else 1)

    def leave(self, path: Path, reason: str = "", group: str = "") -> None:
        """List the field at `path`, with the reason why it is not carried over, in `group` if the
        path does not say it.
        """
        text = self.label + text_of((*self.prefix, *path))
        loss = loss_of(reason.partition(":")[0] if reason.startswith("-") else text)
        if reason.startswith("-") and _OWN.search(reason):
            group = "other"
        # The name of an option or a variable does not say why.
        more = () if ": " in reason or " " in reason else (loss["reason"],)
        parts = (f"{self.file}:{self.line(path)}", text, reason, *more)
        self.left.append((group or loss["group"], ": ".join(each for each in parts if each)))

    def reject(self, path: Path, reason: str, group: str = "") -> None:
        """List the field at `path`, which can be why the whole server is not carried over."""
        self.leave(path, reason, group)
        self.rejections.append(self.left[-1][1])


def loss_of(subject: str) -> Mapping[str, str]:
    """The row of the table on the loss of a path or an option."""
    return next(each for each in _LOSSES if re.search(each["path"], subject))


@dataclass(kw_only=True)
class Server:
    """A model server of others. `places` are the paths in its document by the field of a stack."""

    name: str
    source: Source
    engine: str
    replicas: int | dict[str, int] | None = None
    """The number, or the range {min, max}."""
    token: str = ""
    """The Secret with the token of the hub."""
    accelerators: int = 0
    options: list[Option] = field(default_factory=list)
    extra: list[Option] = field(default_factory=list)
    model: str = ""
    revision: str = ""
    claim: str = ""
    path: str = ""
    applications: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    image: str = ""
    places: dict[str, Path] = field(default_factory=dict)


def items_at(body: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """The mappings in the list at `path`, {} for an item of another type, and none if there is no
    list.
    """
    items = value_at(body, parse(path))
    return (
        [each if isinstance(each, dict) else {} for each in items]
        if isinstance(items, list)
        else []
    )


def take(body: dict[str, Any], path: str) -> Any:
    """The value at `path`, which is removed with the parents that it leaves empty; None if there is
    none, or if it says nothing.
    """
    *parents, last = parse(path)
    parent = value_at(body, tuple(parents))
    if not isinstance(parent, dict) or parent.get(str(last)) in (None, {}, []):
        return None
    value = parent.pop(str(last))
    while parents and parent in ({}, []):
        *parents, last = parents
        parent = value_at(body, tuple(parents))
        if isinstance(parent, list):
            parent[int(last)] = MISSING  # the other items keep their places
            parent[:] = [] if all(each is MISSING for each in parent) else parent
        else:
            parent.pop(last)
    return value


def left_in(body: dict[str, Any]) -> dict[Path, str]:
    """The paths of what was not taken, also of what is empty. A variable of a container is one
    path, with its name.
    """
    left: dict[Path, str] = {}
    for path, value in leaves(body):
        end = next(
            (
                index + 2
                for index, key in enumerate(path[:-1])
                if key == "env" and isinstance(path[index + 1], int)
            ),
            0,
        )
        if end and value is not MISSING:
            left[path[:end]] = str(mapping(value_at(body, path[:end])).get("name", ""))
        elif path and value is not MISSING:
            left[path] = ""
    return left


def mapped(body: dict[str, Any], fields: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """The fields of a stack for the values that are taken from `body`: `fields` are their names by
    path below `prefix`.
    """
    return {
        name: value
        for path, name in fields.items()
        if (value := take(body, prefix + path)) is not None
    }
