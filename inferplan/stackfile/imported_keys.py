"""Imported keys, which are encrypted inside a section of the stack file:
`consumers.<name>.importedKeys.<version>: {secure: ...}`.

The Pulumi CLI hands a program that section as JSON with the plain keys in it. This module takes
them out before anything else reads the section, and puts them in, as the CLI does, before a
rehearsal runs the program. It decrypts, keeps and shows no key.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from inferplan.components.gateway.imported_keys import collisions, imported_key_error
from inferplan.documents.errors import KeyPath, SpecError

SECTION = "consumers"
_FIELD = "importedKeys"
_MASK = {"secure": "[secret]"}
Owner = tuple[str, int]


def is_imported_key(path: KeyPath) -> bool:
    """True if `path`, from the section on (`("consumers", "chat", "importedKeys", "1")`), is that
    of an imported key.
    """
    return len(path) == 4 and path[0] == SECTION and path[2] == _FIELD


def secret_name(consumer: str, version: str) -> str:
    """The name of an imported key in the Pulumi CLI's `--path` and among the file's secrets."""
    return f'{SECTION}.{consumer}.{_FIELD}["{version}"]'


def command_for(path: KeyPath) -> str:
    return f"pulumi config set --secret --path '{secret_name(str(path[1]), str(path[3]))}'"


def mask_keys(section: Any) -> Any:
    """Replace each imported key of `section`, encrypted or plain, by the same mask."""
    return _replace(section, lambda _owner, _value: dict(_MASK))


def mask_plain_keys(section: Any) -> Any:
    """Replace each imported key of `section` that is not encrypted by the mask."""
    return _replace(section, lambda _owner, value: value if _ciphertext(value) else dict(_MASK))


def plain_keys(section: Any) -> dict[Owner, str]:
    """The plain imported keys of `section`, by consumer and version; a value that is not text
    counts as empty.
    """
    return {
        (consumer, int(version)): value if isinstance(value, str) else ""
        for consumer, version, value in _entries(section)
        if version.isascii() and version.isdecimal() and not _ciphertext(value)
    }


def ciphertexts(section: Any) -> dict[str, str]:
    return {
        secret_name(consumer, version): text
        for consumer, version, value in _entries(section)
        if (text := _ciphertext(value))
    }


def with_secrets(
    config: Mapping[str, str], secrets: Mapping[str, str]
) -> tuple[dict[str, str], frozenset[str]]:
    """`config` as the Pulumi CLI passes it with `secrets` decrypted, and those of its keys that
    hold a secret.

    Both are by full key, imported keys by project and `secret_name`.
    """
    nested = {
        key.partition(":")[2]: text
        for key, text in secrets.items()
        if key.partition(":")[2].startswith(f"{SECTION}.")
    }
    passed = {
        **config,
        **{key: text for key, text in secrets.items() if key.partition(":")[2] not in nested},
    }
    secret_keys = {key for key in secrets if key in passed}
    section = next((key for key in config if key.partition(":")[2] == SECTION), None)
    if nested and section is not None:
        data = _replace(
            json.loads(config[section]), lambda owner, value: nested.get(secret_name(*owner), value)
        )
        passed[section] = json.dumps(
            data, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        secret_keys.add(section)
    return passed, frozenset(secret_keys)


def plain_text_message(command: str) -> str:
    """The message about a secret that is not encrypted; `command` sets it."""
    message = (
        "The secret is in plain text but must be encrypted. Consider it compromised, and set a new"
        f' one: {command} "$(openssl rand -hex 32)"'
    )
    seed = (
        "; without the Pulumi CLI, inferplan new writes a stack with a new encrypted seed"
        if command.endswith("Seed")
        else ""
    )
    return f"{message}{seed}"


def errors(keys: Mapping[Owner, str], *, secret: bool) -> Iterator[SpecError]:
    """The validation errors of plain imported keys; `secret` says whether they were encrypted in
    the stack file.
    """
    for owner, key in sorted(keys.items()):
        weakness = imported_key_error(key)
        if not secret:
            yield SpecError(_path(owner), plain_text_message(command_for(_path(owner))))
        elif weakness is not None:
            yield SpecError(_path(owner), weakness)
    for owner, (consumer, version) in collisions(keys).items():
        yield SpecError(
            _path(owner),
            f"This key ends like version {version} of {consumer}, but the gateway looks keys up by"
            " their last characters. Import another key.",
        )


def _path(owner: Owner) -> KeyPath:
    return (SECTION, owner[0], _FIELD, str(owner[1]))


def _ciphertext(value: Any) -> str:
    text = value.get("secure") if isinstance(value, dict) and len(value) == 1 else None
    return text if isinstance(text, str) else ""


def _entries(section: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(section, dict):
        for consumer, spec in section.items():
            keys = spec.get(_FIELD) if isinstance(spec, dict) else None
            if isinstance(keys, dict):
                yield from ((consumer, version, value) for version, value in keys.items())


def _replace(section: Any, by: Callable[[tuple[str, str], Any], Any]) -> Any:
    changed = dict(section) if isinstance(section, dict) else section
    for consumer, version, value in _entries(section):
        changed[consumer] = {
            **changed[consumer],
            _FIELD: {**changed[consumer][_FIELD], version: by((consumer, version), value)},
        }
    return changed
