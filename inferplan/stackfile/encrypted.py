"""Encrypted values of a stack file: where they are allowed, where they are required, and whether
their form is intact.

Forms: `encryptionsalt` is `v1:<salt>:v1:<nonce>:<ciphertext of the word pulumi>`, a value is
`v1:<nonce>:<ciphertext>`, each part in base64; the ciphertext ends with a tag of 16 bytes
(AES-GCM). Source: inferplan/pulumi_engine/secrets.py. Nothing here decrypts or repeats a value.
"""

import base64
import binascii
from collections.abc import Collection, Iterator

from inferplan.documents.errors import KeyPath, LocatedError, Position
from inferplan.documents.yaml_tree import MapNode, Node, ScalarNode, walk
from inferplan.stackfile.imported_keys import command_for, is_imported_key, plain_text_message

SALT = "encryptionsalt"
_SALT_BYTES, _NONCE_BYTES, _TAG_BYTES, _PROOF_BYTES = 8, 12, 16, 22
_SALT_FORM = (
    f"v1:<{_SALT_BYTES} bytes>:v1:<{_NONCE_BYTES} bytes>:<{_PROOF_BYTES} bytes>, each in base64"
)
_VALUE_FORM = f"v1:<{_NONCE_BYTES} bytes>:<at least {_TAG_BYTES} bytes>, each in base64"


def ciphertext(node: Node) -> str | None:
    """The ciphertext of the encrypted value `node`, None if it is not one."""
    secure = (
        node.items.get("secure") if isinstance(node, MapNode) and len(node.items) == 1 else None
    )
    return text_of(secure) or None


def secret_errors(
    node: Node, path: KeyPath, position: Position, command: str
) -> Iterator[LocatedError]:
    """The error of the secret `node` if it is not encrypted; `command` sets it."""
    if ciphertext(node) is None:
        if isinstance(node, ScalarNode) and node.value is not None:
            message = plain_text_message(command)
        else:
            message = f"The value is not encrypted. Set an encrypted one: {command}"
        yield LocatedError(path, message, position)


def misplaced(
    node: Node, path: KeyPath, position: Position, *, allowed: Collection[str]
) -> Iterator[LocatedError]:
    """The encrypted values below `path` that do not belong there, and imported keys in plain text.
    `allowed` are the keys of secrets.
    """
    for each, here, where in walk(node, path, position):
        if is_imported_key(here):
            yield from secret_errors(each, here, where, command_for(here))
        elif (
            isinstance(each, MapNode)
            and list(each.items) == ["secure"]
            and not is_imported_key(here[:4])
        ):
            keys = ", ".join(f"inferplan:{key}" for key in allowed)
            message = (
                f"Encrypted values are not supported here. Only {keys} and consumers' importedKeys"
                " can be encrypted. Keep other secrets in a Kubernetes Secret and name it."
            )
            yield LocatedError(here, message, where)


def damaged(root: MapNode) -> Iterator[LocatedError]:
    """The salt and the encrypted values of a stack file that no passphrase can open. Other secrets
    providers have forms of their own.
    """
    salt, provider = (text_of(root.items.get(key)) for key in (SALT, "secretsprovider"))
    if not salt or provider not in ("", "passphrase"):
        return
    if not _is_salt(salt):
        message = (
            f"The salt is damaged. Expected {_SALT_FORM}. Restore this line from version control:"
            " the secrets need it."
        )
        yield LocatedError((SALT,), message, root.keys[SALT])
    for node, path, position in walk(root, (), root.position):
        text = ciphertext(node)
        if path[:1] == ("config",) and text is not None and not _is_value(text):
            remedy = f"Restore it from version control, or set a new one: {_command(path)}"
            yield LocatedError(
                path, f"The encrypted value is damaged. Expected {_VALUE_FORM}. {remedy}", position
            )


def position_of(root: Node | None, text: str) -> Position | None:
    """The place where the salt `text`, or the value with the ciphertext `text`, is written."""
    if root is None:
        return None
    if isinstance(root, MapNode) and text_of(root.items.get(SALT)) == text:
        return root.keys[SALT]
    return next(
        (
            position
            for node, _path, position in walk(root, (), root.position)
            if ciphertext(node) == text
        ),
        None,
    )


def text_of(node: Node | None) -> str:
    """The text that `node` is, "" if it is another kind of value."""
    return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else ""


def _command(path: KeyPath) -> str:
    name = str(path[1]).removeprefix("inferplan:")
    key_path = (name, *path[2:])
    return (
        command_for(key_path) if is_imported_key(key_path) else f"pulumi config set --secret {name}"
    )


def _is_salt(text: str) -> bool:
    version, _, rest = text.partition(":")
    salt, _, proof = rest.partition(":")
    return (
        version == "v1"
        and _size(salt) == _SALT_BYTES
        and _is_value(proof)
        and _size(proof.rpartition(":")[2]) == _PROOF_BYTES
    )


def _is_value(text: str) -> bool:
    version, *parts = text.split(":")
    return (
        version == "v1"
        and len(parts) == 2
        and _size(parts[0]) == _NONCE_BYTES
        and _size(parts[1]) >= _TAG_BYTES
    )


def _size(text: str) -> int:
    try:
        return len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return -1
