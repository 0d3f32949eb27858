"""The identity of a policy pack: its version, the number of its rules, and a hash of its files and
of those that its rules read.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOM = "inferplan"
_PACK = "policies/"
# What decides, as code or as data: rules with all that they read, what gives them the resources,
# and what reports their results. A test compares the folders with the imports of the pack.
_FOLDERS = (
    _PACK,
    "capacity/",
    "commands/check/",
    "commands/plan/",
    "commands/report/",
    "documents/",
    "hardware/",
    "images/",
    "kube/",
    "planning/",
    "pulumi_engine/",
    "review/",
    "workspace/project.py",
    "workspace/revisions.py",
    "workspace/stack_fields.toml",
    "errors.py",
    "garbage.py",
    "tables.py",
)
_SOURCES = (".py", ".toml", ".yaml", ".csv")
_CHECK = re.compile(rb"^@(?:resource|stack)_rule\b", re.MULTILINE)
_VERSION = re.compile(rb"^version: *(\S+)", re.MULTILINE)
# Settings are data of a stack; the report compares them by themselves.
_WITHOUT = ("policies/stacks/", "__pycache__/")


def is_source(name: str) -> bool:
    """True if the file `name`, relative to the folder `inferplan`, belongs to the identity of its
    pack.
    """
    return (
        name.startswith(_FOLDERS)
        and name.endswith(_SOURCES)
        and not any(part in name for part in _WITHOUT)
    )


def identity_of(sources: Mapping[str, bytes]) -> str:
    """The identity of the pack with these files, by name relative to `inferplan`; "" without a
    pack.
    """
    names = sorted(filter(is_source, sources))
    if not any(name.startswith(_PACK) for name in names):
        return ""
    digest = sha256()
    for name in names:
        digest.update(f"{name}\0{len(sources[name])}\0".encode())
        digest.update(sources[name])
    version = _VERSION.search(sources.get(f"{_PACK}PulumiPolicy.yaml", b""))
    return (
        f"{version[1].decode() if version else 'no version'}, {_rules(sources)} rules,"
        f" sha256:{digest.hexdigest()[:16]}"
    )


def _rules(sources: Mapping[str, bytes]) -> int:
    """The number of rules with a check: a decorated function, or rows of `rules.toml`."""
    try:
        listed = tomllib.loads(sources.get(f"{_PACK}rules.toml", b"").decode())
    except ValueError:
        listed = {}
    checks = sum(
        len(_CHECK.findall(content))
        for name, content in sources.items()
        if name.startswith(f"{_PACK}rules/")
    )
    return checks + sum(
        isinstance(each, dict) and bool({"rows", "table"} & each.keys()) for each in listed.values()
    )


def identity_in(folder: Path) -> str:
    """The identity of the pack in `folder`, which is a folder `inferplan`."""
    names = (each.relative_to(folder).as_posix() for each in folder.rglob("*"))
    return identity_of({name: (folder / name).read_bytes() for name in names if is_source(name)})


def count_judged(resources: Iterable[Any]) -> int:
    """The number of `resources`, each with a `type`, that an engine lists in its events too."""
    return sum(not each.type.startswith("pulumi:") for each in resources)


def statement(judged: int) -> str:
    """The sentence of the pack about a run: its identity, and how many resources it read."""
    return f"{own_identity()}, {judged} resources judged"


@cache
def own_identity() -> str:
    """The identity of the pack that runs here."""
    return identity_in(Path(__file__).resolve().parents[2])
