"""The identity of a policy pack: its version, the number of its rules, and a hash of its source files, without their folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

_SOURCES = (".py", ".toml", ".yaml")
_RULE = re.compile(rb"^@(?:resource|stack)_rule\b", re.MULTILINE)
_VERSION = re.compile(rb"^version: *(\S+)", re.MULTILINE)
# Settings are data of a stack; the report compares them by themselves.
_WITHOUT = ("stacks/", "__pycache__/")


def is_source(name: str) -> bool:
    """True if the file `name`, relative to the folder of the pack, belongs to its identity."""
    return name.endswith(_SOURCES) and not any(part in name for part in _WITHOUT)


def identity_of(sources: Mapping[str, bytes]) -> str:
    """The identity of the pack with these files, by name relative to its folder; "" without files."""
    if not sources:
        return ""
    digest = sha256()
    for name in sorted(sources):
        digest.update(f"{name}\0{len(sources[name])}\0".encode())
        digest.update(sources[name])
    version = _VERSION.search(sources.get("PulumiPolicy.yaml", b""))
    rules = sum(len(_RULE.findall(content)) for name, content in sources.items() if name.startswith("rules/"))
    return f"{version[1].decode() if version else 'no version'}, {rules} rules, sha256:{digest.hexdigest()[:16]}"


@cache
def own_identity() -> str:
    """The identity of the pack that runs here."""
    folder = Path(__file__).resolve().parents[1]
    names = (each.relative_to(folder).as_posix() for each in folder.rglob("*"))
    return identity_of({name: (folder / name).read_bytes() for name in names if is_source(name)})
