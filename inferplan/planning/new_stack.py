"""A new stack from another one: comments, order and layout stay, every secret is encrypted again,
and the seed is new.
"""

from __future__ import annotations

import os
import re
import secrets as randomness
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferplan.documents.errors import InvalidStack, KeyPath, dotted, shown
from inferplan.documents.yaml_edit import replace_scalar
from inferplan.documents.yaml_tree import MapNode, read_tree, to_data, walk
from inferplan.errors import RequestError
from inferplan.planning.copied_names import (
    Rename,
    cluster_rename,
    copied_exemptions,
    renamed_cluster,
)
from inferplan.pulumi_engine.secrets import (
    EXAMPLE_PASSPHRASE,
    SecretBox,
    SecretsError,
    belongs_to_passphrase,
    new_salt,
    unlock,
)
from inferplan.stackfile.encrypted import ciphertext
from inferplan.stackfile.imported_keys import SECTION, mask_keys
from inferplan.stackfile.public_examples import lines
from inferplan.stackfile.reader import PROJECT, SECRET_KEYS, StackFile, read_stack, stack_path
from inferplan.stackfile.settings import validate
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.files import create
from inferplan.workspace.project import project_root, short_path, stack_file, stack_name

SEED = f"{PROJECT}:apiKeySeed"
SEED_BYTES = 32
_SCHEMA_LINE = re.compile(r"(?m)^(# yaml-language-server: \$schema=)(\S+)")


@dataclass(frozen=True)
class StackCopy:
    """The file of a new stack before it is written, and the names of the secrets that it has in
    common with its source.
    """

    content: bytes
    carried: tuple[str, ...]
    source: StackFile = field(repr=False)
    box: SecretBox = field(repr=False)
    rename: Rename | None = None

    def reads_back(self, written: Path) -> bool:
        """True if the file `written` is a valid stack that differs from the source only in its
        secrets and `rename`.
        """
        after = read_stack(written)
        try:
            validate(after)
            opened = {name: self.box.decrypt(sealed) for name, sealed in after.secrets.items()}
        except (InvalidStack, ValueError):
            return False

        def plain(file: StackFile) -> dict[str, object]:
            section = f"{PROJECT}:{SECTION}"
            data = {
                key: to_data(root) if (root := read_tree(text).root) else None
                for key, text in file.config.items()
            }
            return {
                key: mask_keys(value) if key == section else value for key, value in data.items()
            }

        expected = plain(self.source)
        cluster = expected.get(f"{PROJECT}:cluster")
        if self.rename is not None and isinstance(cluster, dict):
            cluster["name"] = self.rename.new
        same = plain(after) == expected and after.secrets_provider == self.source.secrets_provider
        return same and after.secrets.keys() == self.source.secrets.keys() and bool(opened[SEED])


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A stack to create: its name and file, and the valid stack that it copies."""

    name: str
    root: Path
    target: Path
    source: StackFile
    settings: StackSettings

    def write(self, passphrase: str) -> NewStack:
        """Write the stack file, encrypted with `passphrase`, and the copied policy settings. Raises
        OperationError; then nothing is left.
        """
        rename = cluster_rename(self.settings, self.name)
        copy = copy_of(self.source, self.target, passphrase, rename)
        with copied_exemptions(self.root, stack_name(self.source.path), self.name, rename) as rules:
            create(self.target, copy.content, sound=copy.reads_back)
        files = tuple(short_path(each) for each in (self.target, *rules))
        cluster = rename.new if rename else ""
        return NewStack(
            files=files,
            carried=copy.carried,
            cluster=cluster,
            examples=lines(read_stack(self.target, shown_path=files[0]), self.settings),
        )


@dataclass(frozen=True, kw_only=True)
class NewStack:
    """The files of a new stack, the secrets that it shares with its source, a line for each value
    of an example, and its cluster's name.
    """

    files: tuple[str, ...]
    carried: tuple[str, ...]
    cluster: str
    examples: tuple[str, ...]


def draft_stack(name: str, source: str) -> Draft:
    """The draft of the stack `name` from `source`, a stack or a file. Raises RequestError, or
    InvalidStack if the source has errors.
    """
    _check_name(name)
    root = project_root()
    target = stack_path(root, name)
    if target.exists() or target.is_symlink():
        raise RequestError(
            f"{short_path(target)} exists already and was left as it is. Use another name, or move"
            " that file away first"
        )
    path = stack_file(root, source)
    file = read_stack(path, shown_path=short_path(path))
    settings = validate(file)
    check_source(file, name)
    return Draft(name=name, root=root, target=target, source=file, settings=settings)


def _check_name(stack: str) -> None:
    """Raise RequestError for a name that the Pulumi CLI rejects."""
    allowed = "A stack's name has 1 to 100 ASCII letters, digits, hyphens, underscores and periods"
    if "/" in stack:
        raise RequestError(
            f"{shown(stack)} cannot name a stack: it contains a slash. Give the name without"
            f" organization, project or folder. {allowed}"
        )
    odd = next(
        (each for each in stack if not (each.isascii() and (each.isalnum() or each in "-_."))), None
    )
    if odd is not None or not 0 < len(stack) <= 100:
        problem = (
            f"it contains {shown(odd)}" if odd is not None else f"it has {len(stack)} characters"
        )
        raise RequestError(f"{shown(stack)} cannot name a stack: {problem}. {allowed}")


def check_source(source: StackFile, stack: str) -> None:
    """Raise RequestError, with the commands to use instead, if the secrets of `source` are not
    encrypted with a passphrase.
    """
    if belongs_to_passphrase(source.encryption_salt, source.secrets_provider):
        return
    provider = source.secrets_provider or ""
    owner = provider.partition(":")[0] or "Pulumi's service"
    option = f" --secrets-provider {shlex.quote(provider)}" if provider else ""
    raise RequestError(
        f"the secrets of {source.shown_path} belong to {owner}, which only the Pulumi CLI can call."
        " Either name a stack with a passphrase "
        f"(--from local), or type: pulumi stack init {stack} --copy-config-from"
        f" {stack_name(source.path)}{option}, and then, since that "
        f"copies the seed of all keys too: pulumi config set --stack {stack} --secret apiKeySeed"
        ' "$(openssl rand -hex 32)"'
    )


def copy_of(
    source: StackFile, target: Path, passphrase: str, rename: Rename | None = None
) -> StackCopy:
    """A copy of `source` for the file `target`. Raises RequestError if neither `passphrase` nor
    that of the examples opens its secrets.
    """
    raw = source.path.read_bytes()
    mark = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    text = raw[len(mark) :].decode()
    places = _encrypted_places(text)
    carried = {path: sealed for path, sealed in places.items() if not _is_seed(path)}
    opened = _opened(source, carried, passphrase)
    salt, box = new_salt(passphrase)
    text = replace_scalar(text, ("encryptionsalt",), salt)
    for path in places:
        plain = opened[path] if path in opened else randomness.token_hex(SEED_BYTES)
        text = replace_scalar(text, (*path, "secure"), box.encrypt(plain))
    text = _comments_that_hold(text, source.path, target)
    if rename is not None:
        text = renamed_cluster(text, rename.new)
    return StackCopy(
        mark + text.encode(), tuple(_name(path) for path in carried), source, box, rename
    )


def _encrypted_places(text: str) -> dict[KeyPath, str]:
    root = read_tree(text).root
    if not isinstance(root, MapNode) or "config" not in root.items:
        return {}
    nodes = walk(root.items["config"], ("config",), root.position)
    return {path: sealed for node, path, _ in nodes if (sealed := ciphertext(node)) is not None}


def _is_seed(path: KeyPath) -> bool:
    # The source's previous seed too: keys derived from it must not be valid in the copy.
    return (
        path[0] == "config"
        and len(path) == 2
        and str(path[1]).removeprefix(f"{PROJECT}:") in SECRET_KEYS
    )


def _name(path: KeyPath) -> str:
    return dotted(path[1:]).removeprefix(f"{PROJECT}:")


def _opened(
    source: StackFile, sealed: Mapping[KeyPath, str], passphrase: str
) -> dict[KeyPath, str]:
    if not sealed:
        return {}
    for each in (passphrase, EXAMPLE_PASSPHRASE):
        try:
            box = unlock(each, source.encryption_salt or "")
        except SecretsError:
            continue
        try:
            return {path: box.decrypt(text) for path, text in sealed.items()}
        except ValueError as error:
            raise RequestError(
                f"a secret of {source.shown_path} cannot be decrypted: {error}. Set it again, or"
                " remove it"
            ) from error
    names = ", ".join(map(_name, sealed))
    raise RequestError(
        f"{source.shown_path} holds secrets under a passphrase other than yours: {names}. Give the"
        f" passphrase of {stack_name(source.path)} (the new stack then has the same), or name a"
        " copy of the file without them: --from PATH."
    )


def _comments_that_hold(text: str, source: Path, target: Path) -> str:
    """`text` with corrected comments: the path of the schema, and no passphrase of the examples."""

    def moved(match: re.Match[str]) -> str:
        schema = source.parent / match[2]
        return match[1] + (os.path.relpath(schema, target.parent) if schema.is_file() else match[2])

    remark = re.compile(
        rf"(?m)^(#.*?) ?Passphrase of the secret: {re.escape(EXAMPLE_PASSPHRASE)}[ \t]*(?=\r?$)"
    )
    return _SCHEMA_LINE.sub(moved, remark.sub(r"\1", text), count=1)
