"""Keys that users bring, which stand sealed inside a section of the stack file: `consumers.<name>.ownKeys.<version>: {secure: ...}`.

The Pulumi CLI hands a program that section as JSON with the plain keys in it. They are taken out here before anything looks at the
section, and put in here, as the CLI does, before a rehearsal runs the program. Nothing here opens, keeps or shows one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from components.gateway.own_keys import collisions, own_key_fault
from components.spec import Fault

SECTION = "consumers"
_FIELD = "ownKeys"
_SEALED = {"secure": "[secret]"}
Owner = tuple[str, int]
Path = tuple[str | int, ...]


def is_own_key(path: Path) -> bool:
    """Whether `path`, from the section on (`("consumers", "chat", "ownKeys", "1")`), is the place of a brought key."""
    return len(path) == 4 and path[0] == SECTION and path[2] == _FIELD


def secret_name(consumer: str, version: str) -> str:
    """How the Pulumi CLI's `--path` spells the place of a brought key; also what the file's secrets call it."""
    return f'{SECTION}.{consumer}.{_FIELD}["{version}"]'


def command_for(path: Path) -> str:
    """What a person types to set the brought key at `path`."""
    return f"pulumi config set --secret --path '{secret_name(str(path[1]), str(path[3]))}'"


def masked(section: Any) -> Any:
    """`section` with the same mark in the place of each brought key, sealed or plain."""
    return _replaced(section, lambda _owner, _found: dict(_SEALED))


def without_clear(section: Any) -> Any:
    """`section` with that mark in the place of each brought key that is not sealed."""
    return _replaced(section, lambda _owner, found: found if _ciphertext(found) else dict(_SEALED))


def in_clear(section: Any) -> dict[Owner, str]:
    """The plain brought keys of `section`, by consumer and version; what is no text counts as an empty one."""
    return {
        (consumer, int(version)): value if isinstance(value, str) else ""
        for consumer, version, value in _places(section)
        if version.isascii() and version.isdecimal() and not _ciphertext(value)
    }


def sealed(section: Any) -> dict[str, str]:
    """The ciphertexts of brought keys, by `secret_name`."""
    return {secret_name(consumer, version): text for consumer, version, value in _places(section) if (text := _ciphertext(value))}


def with_secrets(config: Mapping[str, str], secrets: Mapping[str, str], *, stand_in: bool) -> tuple[dict[str, str], frozenset[str]]:
    """`config` as the Pulumi CLI passes it with `secrets` opened, and the keys of it that hold some.

    Both are by full key, brought keys by project and `secret_name`. Where values are stand-ins, brought keys get the form of a key.
    """
    nested = {key.partition(":")[2]: text for key, text in secrets.items() if key.partition(":")[2].startswith(f"{SECTION}.")}
    passed = {**config, **{key: text for key, text in secrets.items() if key.partition(":")[2] not in nested}}
    secret_keys = {key for key in secrets if key in passed}
    section = next((key for key in config if key.partition(":")[2] == SECTION), None)
    if nested and section is not None:
        plain = {name: hashlib.sha256(text.encode()).hexdigest() if stand_in else text for name, text in nested.items()}
        data = _replaced(json.loads(config[section]), lambda owner, found: plain.get(secret_name(*owner), found))
        passed[section] = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        secret_keys.add(section)
    return passed, frozenset(secret_keys)


def faults(brought: Mapping[Owner, str], *, secret: bool) -> Iterator[Fault]:
    """What is wrong with plain brought keys; `secret` says whether they came sealed."""
    for owner, key in sorted(brought.items()):
        weakness = own_key_fault(key)
        if not secret:
            yield Fault(
                _path(owner), f"stands in clear; replace it with: {command_for(_path(owner))}, and treat the old key as known to others"
            )
        elif weakness is not None:
            yield Fault(_path(owner), weakness)
    for owner, (consumer, version) in collisions(brought).items():
        alike = f"ends like version {version} of {consumer}, and its last characters are what the proxy finds it by; bring another key"
        yield Fault(_path(owner), alike)


def _path(owner: Owner) -> Path:
    return (SECTION, owner[0], _FIELD, str(owner[1]))


def _ciphertext(value: Any) -> str:
    found = value.get("secure") if isinstance(value, dict) and len(value) == 1 else None
    return found if isinstance(found, str) else ""


def _places(section: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(section, dict):
        for consumer, spec in section.items():
            own = spec.get(_FIELD) if isinstance(spec, dict) else None
            if isinstance(own, dict):
                yield from ((consumer, version, value) for version, value in own.items())


def _replaced(section: Any, by: Callable[[tuple[str, str], Any], Any]) -> Any:
    changed = dict(section) if isinstance(section, dict) else section
    for consumer, version, value in _places(section):
        changed[consumer] = {**changed[consumer], _FIELD: {**changed[consumer][_FIELD], version: by((consumer, version), value)}}
    return changed
