"""Checks the form of what a passphrase encrypted, which shows most damage without the passphrase. It decrypts and repeats nothing.

Forms: `encryptionsalt` is `v1:<salt>:v1:<nonce>:<ciphertext of the word pulumi>`, a value is `v1:<nonce>:<ciphertext>`, each part in
base64; the ciphertext ends with a tag of 16 bytes (AES-GCM). Source: rehearsal/secrets.py.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from components.spec import KeyPath, SpecError
from stackfile.encrypted import ciphertext
from stackfile.errors import LocatedError, Position
from stackfile.imported_keys import command_for, is_imported_key
from stackfile.yaml_tree import ListNode, MapNode, Node, ScalarNode

SALT = "encryptionsalt"
_SALT_BYTES, _NONCE_BYTES, _TAG_BYTES, _PROOF_BYTES = 8, 12, 16, 22
_SALT_FORM = f"v1:<{_SALT_BYTES} bytes>:v1:<{_NONCE_BYTES} bytes>:<{_PROOF_BYTES} bytes>, each in base64"
_VALUE_FORM = f"v1:<{_NONCE_BYTES} bytes>:<at least {_TAG_BYTES} bytes>, each in base64"


def damaged(root: MapNode) -> Iterator[LocatedError]:
    """The salt and the encrypted values of a stack file that no passphrase can open. Other secrets providers have forms of their own."""
    salt, provider = (_text(root.items.get(key)) for key in (SALT, "secretsprovider"))
    if not salt or provider not in ("", "passphrase"):
        return
    if not _is_salt(salt):
        message = f"The salt is damaged. Expected {_SALT_FORM}. Restore this line from version control: the secrets need it."
        yield LocatedError(SpecError((SALT,), message), root.keys[SALT])
    config = root.items.get("config")
    if config is not None:
        for node, path, position in _encrypted(config, ("config",), root.keys["config"]):
            if not _is_value(ciphertext(node) or ""):
                remedy = f"Restore it from version control, or set a new one: {_command(path)}"
                yield LocatedError(SpecError(path, f"The encrypted value is damaged. Expected {_VALUE_FORM}. {remedy}"), position)


def position_of(root: Node | None, text: str) -> Position | None:
    """Where the salt `text`, or the value with the ciphertext `text`, is written."""
    if root is None:
        return None
    if isinstance(root, MapNode) and _text(root.items.get(SALT)) == text:
        return root.keys[SALT]
    return next((position for node, _path, position in _encrypted(root, (), root.position) if ciphertext(node) == text), None)


def _encrypted(node: Node, path: KeyPath, position: Position) -> Iterator[tuple[Node, KeyPath, Position]]:
    if ciphertext(node) is not None:
        yield node, path, position
    elif isinstance(node, MapNode):
        for key, item in node.items.items():
            yield from _encrypted(item, (*path, key), node.keys[key])
    elif isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            yield from _encrypted(item, (*path, index), item.position)


def _command(path: KeyPath) -> str:
    name = str(path[1]).removeprefix("inferplan:")
    thought = (name, *path[2:])
    return command_for(thought) if is_imported_key(thought) else f"pulumi config set --secret {name}"


def _is_salt(text: str) -> bool:
    version, _, rest = text.partition(":")
    salt, _, proof = rest.partition(":")
    return version == "v1" and _size(salt) == _SALT_BYTES and _is_value(proof) and _size(proof.rpartition(":")[2]) == _PROOF_BYTES


def _is_value(text: str) -> bool:
    version, *parts = text.split(":")
    return version == "v1" and len(parts) == 2 and _size(parts[0]) == _NONCE_BYTES and _size(parts[1]) >= _TAG_BYTES


def _size(text: str) -> int:
    try:
        return len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return -1


def _text(node: Node | None) -> str:
    return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else ""
