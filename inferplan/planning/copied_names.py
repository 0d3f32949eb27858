"""The name of the cluster that a copied stack creates, and the policy exemptions that name it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from inferplan.documents.yaml_edit import replace_scalar
from inferplan.planning.policy_check import settings_file
from inferplan.stackfile.reader import PROJECT
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.files import create

_CLUSTER_NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")


class Rename(NamedTuple):
    old: str
    new: str


def cluster_rename(settings: StackSettings, stack: str) -> Rename | None:
    """The rename to `stack`, None if the cluster exists already, has the name already, or cannot
    have it.
    """
    cluster = settings.cluster
    name = getattr(cluster, "name", None)
    if (
        not cluster.is_created
        or not isinstance(name, str)
        or name == stack
        or not _CLUSTER_NAME.fullmatch(stack)
    ):
        return None
    return Rename(name, stack)


def renamed_cluster(text: str, name: str) -> str:
    """The stack file `text` with `name` as the name of its cluster. Raises KeyError if it has none."""
    import yaml

    scalar = name if yaml.safe_load(name) == name else json.dumps(name)
    try:
        return replace_scalar(text, ("config", f"{PROJECT}:cluster", "name"), scalar)
    except KeyError:
        return replace_scalar(text, ("config", "cluster", "name"), scalar)


@contextmanager
def copied_exemptions(
    root: Path, source: str, stack: str, rename: Rename | None
) -> Iterator[list[Path]]:
    """The copied policy settings of the source, none if the stack has its own. They are removed if
    the block fails.
    """
    existing, copy = settings_file(root, source), settings_file(root, stack)
    written = []
    if existing.is_file() and not copy.exists():
        create(copy, _renamed(existing.read_bytes(), rename))
        written.append(copy)
    try:
        yield written
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _renamed(content: bytes, rename: Rename | None) -> bytes:
    if rename is None:
        return content
    resource = rf'("resource"\s*:\s*"[^"/]+/){re.escape(rename.old)}(?=")'.encode()
    return re.sub(resource, rb"\g<1>" + rename.new.encode(), content)
