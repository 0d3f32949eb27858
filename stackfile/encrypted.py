"""Checks where a stack file may hold encrypted values, and where it must. It decrypts nothing and repeats no value."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from components.spec import KeyPath, SpecError
from stackfile.errors import LocatedError, Position
from stackfile.imported_keys import command_for, is_imported_key, plain_text_error
from stackfile.yaml_tree import ListNode, MapNode, Node, ScalarNode


def ciphertext(node: Node) -> str | None:
    """The ciphertext of the encrypted value `node`, None if it is not one."""
    secure = node.items.get("secure") if isinstance(node, MapNode) and len(node.items) == 1 else None
    return secure.value if isinstance(secure, ScalarNode) and isinstance(secure.value, str) and secure.value else None


def secret_error(node: Node, path: KeyPath, command: str) -> SpecError | None:
    """The error of the secret `node` if it is not encrypted; `command` sets it."""
    if ciphertext(node) is not None:
        return None
    if isinstance(node, ScalarNode) and node.value is not None:
        return plain_text_error(path, command)
    return SpecError(path, f"The value is not encrypted. Set an encrypted one: {command}")


def misplaced(node: Node, path: KeyPath, position: Position, *, allowed: Collection[str]) -> Iterator[LocatedError]:
    """The encrypted values below `path` that do not belong there, and imported keys in plain text. `allowed` are the keys of secrets."""
    if is_imported_key(path):
        error = secret_error(node, path, command_for(path))
        if error is not None:
            yield LocatedError(error, position)
    elif isinstance(node, MapNode):
        if list(node.items) == ["secure"]:
            keys = ", ".join(f"inferplan:{key}" for key in allowed)
            message = (
                f"Encrypted values are not supported here. Only {keys} and consumers' importedKeys can be encrypted. "
                "Keep other secrets in a Kubernetes Secret and name it."
            )
            yield LocatedError(SpecError(path, message), position)
            return
        for key, item in node.items.items():
            yield from misplaced(item, (*path, key), node.keys[key], allowed=allowed)
    elif isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            yield from misplaced(item, (*path, index), item.position, allowed=allowed)
