"""Reads `stacks/Pulumi.<stack>.yaml` as the Pulumi CLI reads it, with line and column of everything.

It hands on configuration as strings and secrets as ciphertext: it decrypts nothing, and keeps a secret that stands in
clear out of everything it returns. Whether the values make a stack is judged elsewhere.
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
from stackfile.errors import LocatedError, Position, nearest, shown
from stackfile.yaml_tree import ListNode, MapNode, Node, ScalarNode, ambiguities, find, read_tree, to_data

PROJECT = "inferplan"
SEED_KEY, PREVIOUS_SEED_KEY = SECRET_KEYS = ("apiKeySeed", "previousApiKeySeed")
PROVIDER_NAMESPACES = ("aws", "kubernetes", "pulumi")
MAX_BYTES = 1024 * 1024
_TOP_LEVEL = ("config", "encryptedkey", "encryptionsalt", "environment", "secretsprovider")


@dataclass(frozen=True)
class StackFile:
    """What a stack file says, and everything that is wrong with how it says it.

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
        """Where `path` (`("models", "chat", "pool")`) was written, or its nearest parent; None where nothing was read."""
        return None if self.root is None else find(self.root, self._full(path))[1]

    def written(self, path: KeyPath) -> str | None:
        """The text of the scalar at `path` as it stands in the file, None where there is none."""
        if self.root is None:
            return None
        node, _ = find(self.root, self._full(path))
        return node.text if isinstance(node, ScalarNode) else None

    def written_keys(self, *path: str) -> frozenset[str]:
        """The keys of the map at `path` as they stand in the file, none where there is no map."""
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
    """What `path` holds. It raises nothing about the file: whatever is wrong stands in `errors`."""
    name = shown_path or str(path)
    text, error = _text(path)
    if error is not None:
        return StackFile(path, name, errors=(error,))
    tree = read_tree(text)
    found = [*tree.errors]
    if isinstance(tree.root, MapNode):
        reader = _Sections(tree.root)
        found += reader.read()
        return StackFile(
            path,
            name,
            reader.config,
            reader.secrets,
            reader.text("encryptionsalt"),
            reader.text("secretsprovider"),
            _named(found),
            tree.root,
        )
    if not found:
        what = "is empty" if tree.root is None or to_data(tree.root) is None else f"holds {kind(tree.root)}"
        found.append(LocatedError(SpecError((), f"the file {what}; write a mapping that starts with 'config:'"), Position(1, 1)))
    return StackFile(path, name, errors=_named(found))


def kind(node: Node) -> str:
    """What `node` is, in words."""
    match node:
        case MapNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case ScalarNode(value=None):
            return "nothing"
        case ScalarNode(value=bool()):
            return "true or false"
        case ScalarNode(value=int() | float()):
            return "a number"
        case _:
            return "text"


def _text(path: Path) -> tuple[str, LocatedError | None]:
    def refuse(message: str, position: Position | None = None) -> tuple[str, LocatedError]:
        return "", LocatedError(SpecError((), message), position)

    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return refuse("there is no such file; check the name of the stack")
    except (OSError, ValueError) as error:
        return refuse(f"cannot be read ({getattr(error, 'strerror', None) or error}); a stack is a YAML file that you may read")
    if len(raw) > MAX_BYTES:
        return refuse(f"larger than {MAX_BYTES // 1024} KiB; a stack of a thousand models fits, so this is another file")
    try:
        return raw.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        position = Position(before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        return refuse(f"byte 0x{raw[error.start]:02x} is no UTF-8; save the file as UTF-8 text", position)


def _named(found: list[LocatedError]) -> tuple[LocatedError, ...]:
    return tuple(LocatedError(SpecError(_as_thought(each.error.path), each.error.message), each.position) for each in found)


def _as_thought(path: KeyPath) -> KeyPath:
    return (str(path[1]).removeprefix(f"{PROJECT}:"), *path[2:]) if path[:1] == ("config",) and len(path) > 1 else path


class _Sections:
    """Goes through the sections of a stack file once, collecting what they hold."""

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
                hint = f"; write it below config as {PROJECT}:{key}" if ":" not in key else "; indent it below config"
                hint = nearest(key, _TOP_LEVEL) or hint
                yield LocatedError(SpecError((key,), f"not a key of a stack file{hint}; allowed are {', '.join(_TOP_LEVEL)}"), position)
            elif key not in ("config", "environment") and self.text(key) is None:
                yield LocatedError(SpecError((key,), f"holds {kind(node)}; the Pulumi CLI writes text here"), position)
        config = self.root.items.get("config")
        if config is None:
            yield LocatedError(
                SpecError((), f"config is missing; write 'config:' and below it {PROJECT}:cluster and the rest"), Position(1, 1)
            )
        elif isinstance(config, MapNode):
            for key, node in config.items.items():
                yield from self._entry(key, node, config.keys[key])
        else:
            position = self.root.keys["config"]
            yield LocatedError(SpecError(("config",), f"holds {kind(config)}; write a mapping of keys such as {PROJECT}:cluster"), position)

    def _entry(self, key: str, node: Node, position: Position) -> Iterator[LocatedError]:
        parts = key.split(":")
        full = key if len(parts) > 1 else f"{PROJECT}:{key}"
        path = ("config", key)
        if len(parts) > 2:
            fixed = f"{parts[0]}:{parts[-1]}"
            yield LocatedError(SpecError(path, f"has {len(parts)} parts; write namespace:name, such as {fixed}"), position)
        elif len(parts) > 1 and parts[0] not in (PROJECT, *PROVIDER_NAMESPACES):
            near = difflib.get_close_matches(parts[0], (PROJECT, *PROVIDER_NAMESPACES), n=1)
            hint = f"; did you mean '{near[0]}:{parts[1]}'" if near else ""
            allowed = ", ".join(f"{each}:" for each in (PROJECT, *PROVIDER_NAMESPACES))
            yield LocatedError(SpecError(path, f"{shown(parts[0])} is no namespace of this project{hint}; allowed are {allowed}"), position)
        elif full in self.config or full in self.secrets:
            yield LocatedError(
                SpecError(path, f"stands here a second time, as {full!r} and without the prefix; keep one of them"), position
            )
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
        yield from misplaced(node, _as_thought(path), position, allowed=SECRET_KEYS)
        if ours:
            yield from ambiguities(node, path)
        self.config[full] = _as_the_cli_passes(node)
        if full == f"{PROJECT}:{imported_keys.SECTION}":
            section = to_data(node)
            self.secrets |= {f"{PROJECT}:{key}": text for key, text in imported_keys.ciphertexts(section).items()}
            if section != (kept := imported_keys.mask_plain_keys(section)):
                self.config[full] = json.dumps(kept, sort_keys=True)


def _as_the_cli_passes(node: Node) -> str:
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        return node.value
    text = json.dumps(to_data(node), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Go's encoder, which the CLI uses, escapes what would be markup.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
