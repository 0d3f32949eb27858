"""Reads `stacks/Pulumi.<stack>.yaml` as the Pulumi CLI reads it, with the line and column of every value.

It returns configuration as strings and secrets as ciphertext: it decrypts nothing, and returns no secret that is in plain
text. It does not check the values.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from components.spec import KeyPath, SpecError
from stackfile import imported_keys
from stackfile.encrypted import ciphertext, misplaced, secret_error
from stackfile.encryption import damaged
from stackfile.errors import LocatedError, Position, shown, suggestion
from stackfile.yaml_tree import ListNode, MapNode, Node, ScalarNode, ambiguities, find, read_tree, to_data

PROJECT = "inferplan"
SEED_KEY, PREVIOUS_SEED_KEY = SECRET_KEYS = ("apiKeySeed", "previousApiKeySeed")
PROVIDER_NAMESPACES = ("aws", "kubernetes", "pulumi")
MAX_BYTES = 1024 * 1024
_TOP_LEVEL = ("config", "encryptedkey", "encryptionsalt", "environment", "secretsprovider")


@dataclass(frozen=True)
class StackFile:
    """The content of a stack file, and every error of its syntax.

    `config` holds full keys (`inferplan:cluster`) and the strings the CLI passes to a program, structures as JSON.
    `secrets` holds full keys and ciphertexts. `errors` carry paths as the user thinks of them (`models.chat.pool`).
    """

    path: Path
    shown_path: str
    config: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    encryption_salt: str | None = None
    secrets_provider: str | None = None
    errors: tuple[LocatedError, ...] = ()
    root: Node | None = field(default=None, repr=False)

    def locate(self, path: KeyPath) -> Position | None:
        """The position of `path` (`("models", "chat", "pool")`) or its nearest parent; None if the file could not be read."""
        return None if self.root is None else find(self.root, self._full(path))[1]

    def written(self, path: KeyPath) -> str | None:
        """The text of the scalar at `path` as it is in the file, None if there is no scalar."""
        if self.root is None:
            return None
        node, _ = find(self.root, self._full(path))
        return node.text if isinstance(node, ScalarNode) else None

    def written_keys(self, *path: str) -> frozenset[str]:
        """The keys of the mapping at `path` as they are in the file, none if there is no mapping."""
        if self.root is None:
            return frozenset()
        node, _ = find(self.root, self._full(path))
        return frozenset(node.items) if isinstance(node, MapNode) else frozenset()

    def _full(self, path: KeyPath) -> KeyPath:
        if not path or not isinstance(self.root, MapNode):
            return path
        config = self.root.items.get("config")
        full = f"{PROJECT}:{path[0]}"
        if isinstance(config, MapNode) and full not in config.items and path[0] in config.items:
            return ("config", *path)
        return ("config", full, *path[1:])


def stack_path(root: Path, stack: str) -> Path:
    """The file of `stack` in the project at `root`, found by the project's `stackConfigDir`. It may not exist."""
    directory = root
    try:
        project = read_tree((root / "Pulumi.yaml").read_text(encoding="utf-8")).root
    except (OSError, UnicodeDecodeError):
        project = None
    if isinstance(project, MapNode):
        named = project.items.get("stackConfigDir")
        if isinstance(named, ScalarNode):
            directory = root / named.text
    return directory / f"Pulumi.{stack.replace('/', '-')}.yaml"


def read_stack(path: Path, *, shown_path: str | None = None) -> StackFile:
    """Read the stack file at `path`. It raises no exception for a bad file: `errors` lists what is wrong."""
    name = shown_path or str(path)
    text, error = _text(path)
    if error is not None:
        return StackFile(path, name, errors=(error,))
    tree = read_tree(text)
    errors = [*tree.errors]
    if isinstance(tree.root, MapNode):
        reader = _Sections(tree.root)
        errors += reader.read()
        errors += damaged(tree.root)
        return StackFile(
            path,
            name,
            reader.config,
            reader.secrets,
            reader.text("encryptionsalt"),
            reader.text("secretsprovider"),
            _named(errors),
            tree.root,
        )
    if not errors:
        problem = "is empty" if tree.root is None or to_data(tree.root) is None else f"holds {kind(tree.root)}"
        errors.append(_error((), f"The file {problem}. Write a mapping that starts with 'config:'.", Position(1, 1)))
    return StackFile(path, name, errors=_named(errors))


def _error(path: KeyPath, message: str, position: Position | None) -> LocatedError:
    return LocatedError(SpecError(path, message), position)


def kind(node: Node) -> str:
    """The kind of `node` in words, such as "a mapping"."""
    match node:
        case MapNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case ScalarNode(value=None):
            return "an empty value"
        case ScalarNode(value=bool()):
            return "a boolean"
        case ScalarNode(value=int() | float()):
            return "a number"
        case _:
            return "text"


def _text(path: Path) -> tuple[str, LocatedError | None]:
    def reject(message: str, position: Position | None = None) -> tuple[str, LocatedError]:
        return "", _error((), message, position)

    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return reject("The file does not exist. Check the name of the stack.")
    except (OSError, ValueError) as error:
        return reject(f"Cannot read the file ({getattr(error, 'strerror', None) or error}). Check its path and permissions.")
    if len(raw) > MAX_BYTES:
        return reject(f"The file is larger than {MAX_BYTES // 1024} KiB, the maximum for a stack. Check its path.")
    try:
        return raw.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        position = Position(before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        return reject(f"Byte 0x{raw[error.start]:02x} is not valid UTF-8. Save the file as UTF-8.", position)


def _named(errors: list[LocatedError]) -> tuple[LocatedError, ...]:
    return tuple(_error(_user_path(each.error.path), each.error.message, each.position) for each in errors)


def _user_path(path: KeyPath) -> KeyPath:
    return (str(path[1]).removeprefix(f"{PROJECT}:"), *path[2:]) if path[:1] == ("config",) and len(path) > 1 else path


class _Sections:
    """Reads the sections of a stack file once, and collects configuration and secrets."""

    def __init__(self, root: MapNode) -> None:
        self.root = root
        self.config: dict[str, str] = {}
        self.secrets: dict[str, str] = {}

    def text(self, key: str) -> str | None:
        node = self.root.items.get(key)
        return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else None

    def read(self) -> Iterator[LocatedError]:
        for key, node in self.root.items.items():
            position = self.root.keys[key]
            if key not in _TOP_LEVEL:
                hint = f" Write it below config as {PROJECT}:{key}." if ":" not in key else " Indent it below config."
                hint = suggestion(key, _TOP_LEVEL) or hint
                yield _error((key,), f"Unknown field {shown(key)}.{hint} Allowed fields: {', '.join(_TOP_LEVEL)}.", position)
            elif key not in ("config", "environment") and self.text(key) is None:
                problem = f"{kind(node).capitalize()} is not valid."
                yield _error((key,), f"{problem} Expected the text that the Pulumi CLI wrote. Restore it.", position)
        config = self.root.items.get("config")
        if config is None:
            message = f"Missing required field config. Write 'config:' and {PROJECT}:cluster, {PROJECT}:nodePools and the rest below it."
            yield _error((), message, Position(1, 1))
        elif isinstance(config, MapNode):
            for key, node in config.items.items():
                yield from self._entry(key, node, config.keys[key])
        else:
            message = f"{kind(config).capitalize()} is not valid. Expected a mapping of keys such as {PROJECT}:cluster."
            yield _error(("config",), message, self.root.keys["config"])

    def _entry(self, key: str, node: Node, position: Position) -> Iterator[LocatedError]:
        parts = key.split(":")
        full = key if len(parts) > 1 else f"{PROJECT}:{key}"
        path = ("config", key)
        if len(parts) > 2:
            example = f"{parts[0]}:{parts[-1]}"
            yield _error(path, f"Key {key!r} has {len(parts)} parts. Expected namespace:name, for example {example}.", position)
        elif len(parts) > 1 and parts[0] not in (PROJECT, *PROVIDER_NAMESPACES):
            near = difflib.get_close_matches(parts[0], (PROJECT, *PROVIDER_NAMESPACES), n=1)
            hint = f" Did you mean '{near[0]}:{parts[1]}'?" if near else ""
            allowed = ", ".join(f"{each}:" for each in (PROJECT, *PROVIDER_NAMESPACES))
            yield _error(path, f"Unknown namespace {shown(parts[0])}.{hint} Allowed namespaces: {allowed}.", position)
        elif full in self.config or full in self.secrets:
            yield _error(path, f"Duplicate key {full!r}, with and without its prefix. Remove one.", position)
        else:
            yield from self._value(full, path, node, position)

    def _value(self, full: str, path: KeyPath, node: Node, position: Position) -> Iterator[LocatedError]:
        ours = full.startswith(f"{PROJECT}:")
        name = full.partition(":")[2]
        encrypted = ciphertext(node)
        if ours and name in SECRET_KEYS:
            if encrypted is not None:
                self.secrets[full] = encrypted
            error = secret_error(node, path, f"pulumi config set --secret {name}")
            if error is not None:
                yield LocatedError(error, position)
            return
        if encrypted is not None and not ours:
            self.secrets[full] = encrypted
            return
        yield from misplaced(node, _user_path(path), position, allowed=SECRET_KEYS)
        if ours:
            yield from ambiguities(node, path)
        self.config[full] = _cli_text(node)
        if full == f"{PROJECT}:{imported_keys.SECTION}":
            section = to_data(node)
            self.secrets |= {f"{PROJECT}:{key}": text for key, text in imported_keys.ciphertexts(section).items()}
            if section != (kept := imported_keys.mask_plain_keys(section)):
                self.config[full] = json.dumps(kept, sort_keys=True)


def _cli_text(node: Node) -> str:
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        return node.value
    text = json.dumps(to_data(node), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Go's encoder, which the CLI uses, escapes what would be markup.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
