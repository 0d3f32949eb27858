"""Reads `stacks/Pulumi.<stack>.yaml` as the Pulumi CLI reads it, with the line and column of every
value. It decrypts nothing.
"""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from inferplan.documents.errors import KeyPath, LocatedError, Position, shown, suggestion
from inferplan.documents.yaml_tree import (
    MapNode,
    Node,
    ScalarNode,
    find,
    read_tree,
    syntax_errors,
    to_data,
    walk,
)
from inferplan.stackfile import environment, imported_keys
from inferplan.stackfile.encrypted import ciphertext, damaged, misplaced, secret_errors, text_of
from inferplan.stackfile.environment import Environment

PROJECT = "inferplan"
SEED_KEY, PREVIOUS_SEED_KEY = SECRET_KEYS = ("apiKeySeed", "previousApiKeySeed")
PROVIDER_NAMESPACES = ("aws", "kubernetes", "pulumi")
MAX_BYTES = 1024 * 1024
_SCALAR_KINDS = {
    bool: "a boolean",
    float: "a number",
    int: "a number",
    str: "text",
    type(None): "an empty value",
}
_TOP_LEVEL = ("config", "encryptedkey", "encryptionsalt", "environment", "secretsprovider")


@dataclass(frozen=True)
class StackFile:
    """The content of a stack file with full keys: `config` as strings, `secrets` as ciphertexts,
    and every syntax error.
    """

    path: Path
    shown_path: str
    config: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    encryption_salt: str | None = None
    secrets_provider: str | None = None
    environment: Environment = field(default_factory=Environment)
    errors: tuple[LocatedError, ...] = ()
    root: Node | None = field(default=None, repr=False)

    def locate(self, path: KeyPath) -> Position | None:
        """The position of `path` (`("models", "chat", "pool")`) or its nearest parent; None if the
        file could not be read.
        """
        return None if self.root is None else find(self.root, self._full(path))[1]

    @property
    def seed_source(self) -> str | None:
        """The part of Pulumi ESC that has the seed; None if the file has it, or if there is none."""
        key = f"{PROJECT}:{SEED_KEY}"
        return None if key in self.secrets else self.environment.source(key)

    def _node(self, path: KeyPath) -> Node | None:
        return None if self.root is None else find(self.root, self._full(path))[0]

    def written(self, path: KeyPath) -> str | None:
        """The text of the scalar at `path` as it is in the file, None if there is no scalar."""
        node = self._node(path)
        return node.text if isinstance(node, ScalarNode) else None

    def written_keys(self, *path: str) -> frozenset[str]:
        """The keys of the mapping at `path` as they are in the file, none if there is no mapping."""
        node = self._node(path)
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
    """The file of `stack` in the project at `root`, found by the project's `stackConfigDir`. It may
    not exist.
    """
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
    """Read the stack file at `path`. It raises no exception for a bad file: `errors` lists what is
    wrong.
    """
    name = shown_path or str(path)
    text, error = _text(path)
    if error is not None:
        return StackFile(path, name, errors=(error,))
    tree = read_tree(text)
    errors, root = [*tree.errors], tree.root
    if isinstance(root, MapNode):
        sections = _Sections(root)
        errors += [*sections.read(), *damaged(root)]
        salt, provider = (
            text_of(root.items.get(key)) or None for key in ("encryptionsalt", "secretsprovider")
        )
        return StackFile(
            path,
            name,
            sections.config,
            sections.secrets,
            salt,
            provider,
            environment.read(root),
            _named(errors),
            root,
        )
    if not errors:
        problem = "is empty" if root is None or to_data(root) is None else f"holds {_kind(root)}"
        errors.append(
            LocatedError(
                (),
                f"The file {problem}. Write a mapping that starts with 'config:'.",
                Position(1, 1),
            )
        )
    return StackFile(path, name, errors=_named(errors))


def _kind(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return _SCALAR_KINDS[type(node.value)]
    return "a mapping" if isinstance(node, MapNode) else "a list"


def _text(path: Path) -> tuple[str, LocatedError | None]:
    raw, position = b"", None
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) <= MAX_BYTES:
            return raw.decode("utf-8-sig"), None
        message = (
            f"The file is larger than {MAX_BYTES // 1024} KiB, the maximum for a stack. Check its"
            " path."
        )
    except FileNotFoundError:
        message = "The file does not exist. Check the name of the stack."
    except UnicodeDecodeError as error:
        position, message = next(syntax_errors(error))
    except (OSError, ValueError) as error:
        message = (
            f"Cannot read the file ({getattr(error, 'strerror', None) or error}). Check its path"
            " and permissions."
        )
    return "", LocatedError((), message, position)


def _named(errors: list[LocatedError]) -> tuple[LocatedError, ...]:
    return tuple(replace(each, path=user_path(each.path)) for each in errors)


def user_path(path: KeyPath) -> KeyPath:
    """`path` of the file as the user thinks of it, without `config` and without the prefix of the
    project.
    """
    return (
        (str(path[1]).removeprefix(f"{PROJECT}:"), *path[2:])
        if path[:1] == ("config",) and len(path) > 1
        else path
    )


class _Sections:
    """Reads the sections of a stack file once, and collects configuration and secrets."""

    def __init__(self, root: MapNode) -> None:
        self.root = root
        self.config: dict[str, str] = {}
        self.secrets: dict[str, str] = {}

    def read(self) -> Iterator[LocatedError]:
        for key, node in self.root.items.items():
            position = self.root.keys[key]
            if key not in _TOP_LEVEL:
                hint = (
                    f" Write it below config as {PROJECT}:{key}."
                    if ":" not in key
                    else " Indent it below config."
                )
                hint = suggestion(key, _TOP_LEVEL) or hint
                message = (
                    f"Unknown field {shown(key)}.{hint} Allowed fields: {', '.join(_TOP_LEVEL)}."
                )
                yield LocatedError((key,), message, position)
            elif key == "environment":
                yield from environment.errors(node, position)
            elif key != "config" and _kind(node) != "text":
                problem = f"{_kind(node).capitalize()} is not valid."
                yield LocatedError(
                    (key,),
                    f"{problem} Expected the text that the Pulumi CLI wrote. Restore it.",
                    position,
                )
        config = self.root.items.get("config")
        if config is None:
            message = (
                f"Missing required field config. Write 'config:' and {PROJECT}:cluster,"
                f" {PROJECT}:nodePools and the rest below it."
            )
            yield LocatedError((), message, Position(1, 1))
        elif isinstance(config, MapNode):
            for key, node in config.items.items():
                yield from self._entry(key, node, config.keys[key])
        else:
            message = (
                f"{_kind(config).capitalize()} is not valid. Expected a mapping of keys such as"
                f" {PROJECT}:cluster."
            )
            yield LocatedError(("config",), message, self.root.keys["config"])

    def _entry(self, key: str, node: Node, position: Position) -> Iterator[LocatedError]:
        parts = key.split(":")
        full = key if len(parts) > 1 else f"{PROJECT}:{key}"
        path = ("config", key)
        if len(parts) > 2:
            example = f"{parts[0]}:{parts[-1]}"
            yield LocatedError(
                path,
                f"Key {key!r} has {len(parts)} parts. Expected namespace:name, for example"
                f" {example}.",
                position,
            )
        elif len(parts) > 1 and parts[0] not in (PROJECT, *PROVIDER_NAMESPACES):
            near = difflib.get_close_matches(parts[0], (PROJECT, *PROVIDER_NAMESPACES), n=1)
            hint = f" Did you mean '{near[0]}:{parts[1]}'?" if near else ""
            allowed = ", ".join(f"{each}:" for each in (PROJECT, *PROVIDER_NAMESPACES))
            yield LocatedError(
                path,
                f"Unknown namespace {shown(parts[0])}.{hint} Allowed namespaces: {allowed}.",
                position,
            )
        elif full in self.config or full in self.secrets:
            yield LocatedError(
                path, f"Duplicate key {full!r}, with and without its prefix. Remove one.", position
            )
        else:
            yield from self._value(full, path, node, position)

    def _value(
        self, full: str, path: KeyPath, node: Node, position: Position
    ) -> Iterator[LocatedError]:
        ours = full.startswith(f"{PROJECT}:")
        name = full.partition(":")[2]
        encrypted = ciphertext(node)
        if ours and name in SECRET_KEYS:
            if encrypted is not None:
                self.secrets[full] = encrypted
            yield from secret_errors(node, path, position, f"pulumi config set --secret {name}")
            return
        if encrypted is not None and not ours:
            self.secrets[full] = encrypted
            return
        yield from misplaced(node, user_path(path), position, allowed=SECRET_KEYS)
        if ours:
            for each, here, _ in walk(node, path, position):
                if isinstance(each, ScalarNode) and each.ambiguity is not None:
                    yield LocatedError(here, each.ambiguity, each.position)
        self.config[full] = _cli_text(node)
        if full == f"{PROJECT}:{imported_keys.SECTION}":
            section = to_data(node)
            self.secrets |= {
                f"{PROJECT}:{key}": text for key, text in imported_keys.ciphertexts(section).items()
            }
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
