"""Where a stack file may hold encrypted values, and where it must. It decrypts nothing and repeats no value."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from components.spec import Fault
from stackfile.faults import LocatedFault, Place
from stackfile.imported_keys import command_for, is_own_key
from stackfile.yaml_tree import ListNode, MapNode, Node, Path, ScalarNode


def ciphertext(node: Node) -> str | None:
    """The encrypted value that `node` is, None where it is anything else."""
    secure = node.items.get("secure") if isinstance(node, MapNode) and len(node.items) == 1 else None
    return secure.value if isinstance(secure, ScalarNode) and isinstance(secure.value, str) and secure.value else None


def misplaced(node: Node, path: Path, place: Place, *, allowed: Collection[str]) -> Iterator[LocatedFault]:
    """Encrypted values below `path` where none is expected, and own keys that stand in clear. `allowed` are the keys that are secrets."""
    if is_own_key(path):
        if isinstance(node, ScalarNode) and node.value is not None:
            message = f"stands here in clear; replace it with: {command_for(path)}, and treat the old key as known to others"
            yield LocatedFault(Fault(path, message), place)
        elif ciphertext(node) is None:
            yield LocatedFault(Fault(path, f"is no encrypted value; set one with: {command_for(path)}"), place)
    elif isinstance(node, MapNode):
        if list(node.items) == ["secure"]:
            keys = ", ".join(f"inferplan:{key}" for key in allowed)
            message = f"an encrypted value is not expected here; only {keys} and consumers' ownKeys are, and what is secret besides stays in a Secret"
            yield LocatedFault(Fault(path, message), place)
            return
        for key, item in node.items.items():
            yield from misplaced(item, (*path, key), node.keys[key], allowed=allowed)
    elif isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            yield from misplaced(item, (*path, index), item.place, allowed=allowed)
