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

from components.spec import Fault
from stackfile import imported_keys
from stackfile.encrypted import ciphertext, misplaced
from stackfile.faults import LocatedFault, Place, nearest, shown
from stackfile.yaml_tree import ListNode, MapNode, Node, ScalarNode, complaints, find, read_tree, to_data
from stackfile.yaml_tree import Path as YamlPath

PROJECT = "inferplan"
SECRET_KEYS = ("apiKeySeed",)
PROVIDER_NAMESPACES = ("aws", "kubernetes", "pulumi")
MAX_BYTES = 1024 * 1024
_TOP_LEVEL = ("config", "encryptedkey", "encryptionsalt", "environment", "secretsprovider")


@dataclass(frozen=True)
class StackFile:
    """What a stack file says, and everything that is wrong with how it says it.

    `config` holds full keys (`inferplan:cluster`) and the strings the CLI passes to a program, structures as JSON.
    `secrets` holds full keys and ciphertexts. `faults` carry paths as the user thinks of them (`models.chat.pool`).
    """

    path: Path
    shown_path: str
    config: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    encryption_salt: str | None = None
    secrets_provider: str | None = None
    faults: tuple[LocatedFault, ...] = ()
    root: Node | None = field(default=None, repr=False)

    def locate(self, path: YamlPath) -> Place | None:
        """Where `path` (`("models", "chat", "pool")`) was written, or its nearest parent; None where nothing was read."""
        return None if self.root is None else find(self.root, self._full(path))[1]

    def written(self, path: YamlPath) -> str | None:
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

    def _full(self, path: YamlPath) -> YamlPath:
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
    """What `path` holds. It raises nothing about the file: whatever is wrong stands in `faults`."""
    name = shown_path or str(path)
    text, fault = _text(path)
    if fault is not None:
        return StackFile(path, name, faults=(fault,))
    tree = read_tree(text)
    found = [*tree.faults]
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
        found.append(LocatedFault(Fault((), f"the file {what}; write a mapping that starts with 'config:'"), Place(1, 1)))
    return StackFile(path, name, faults=_named(found))


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


def _text(path: Path) -> tuple[str, LocatedFault | None]:
    def refuse(message: str, place: Place | None = None) -> tuple[str, LocatedFault]:
        return "", LocatedFault(Fault((), message), place)

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
        place = Place(before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        return refuse(f"byte 0x{raw[error.start]:02x} is no UTF-8; save the file as UTF-8 text", place)


def _named(found: list[LocatedFault]) -> tuple[LocatedFault, ...]:
    return tuple(LocatedFault(Fault(_as_thought(each.fault.path), each.fault.message), each.place) for each in found)


def _as_thought(path: YamlPath) -> YamlPath:
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

    def read(self) -> Iterator[LocatedFault]:
        for key, node in self.root.items.items():
            place = self.root.keys[key]
            if key not in _TOP_LEVEL:
                hint = f"; write it below config as {PROJECT}:{key}" if ":" not in key else "; indent it below config"
                hint = nearest(key, _TOP_LEVEL) or hint
                yield LocatedFault(Fault((key,), f"not a key of a stack file{hint}; allowed are {', '.join(_TOP_LEVEL)}"), place)
            elif key not in ("config", "environment") and self.text(key) is None:
                yield LocatedFault(Fault((key,), f"holds {kind(node)}; the Pulumi CLI writes text here"), place)
        config = self.root.items.get("config")
        if config is None:
            yield LocatedFault(Fault((), f"config is missing; write 'config:' and below it {PROJECT}:cluster and the rest"), Place(1, 1))
        elif isinstance(config, MapNode):
            for key, node in config.items.items():
                yield from self._entry(key, node, config.keys[key])
        else:
            place = self.root.keys["config"]
            yield LocatedFault(Fault(("config",), f"holds {kind(config)}; write a mapping of keys such as {PROJECT}:cluster"), place)

    def _entry(self, key: str, node: Node, place: Place) -> Iterator[LocatedFault]:
        parts = key.split(":")
        full = key if len(parts) > 1 else f"{PROJECT}:{key}"
        path = ("config", key)
        if len(parts) > 2:
            fixed = f"{parts[0]}:{parts[-1]}"
            yield LocatedFault(Fault(path, f"has {len(parts)} parts; write namespace:name, such as {fixed}"), place)
        elif len(parts) > 1 and parts[0] not in (PROJECT, *PROVIDER_NAMESPACES):
            near = difflib.get_close_matches(parts[0], (PROJECT, *PROVIDER_NAMESPACES), n=1)
            hint = f"; did you mean '{near[0]}:{parts[1]}'" if near else ""
            allowed = ", ".join(f"{each}:" for each in (PROJECT, *PROVIDER_NAMESPACES))
            yield LocatedFault(Fault(path, f"{shown(parts[0])} is no namespace of this project{hint}; allowed are {allowed}"), place)
        elif full in self.config or full in self.secrets:
            yield LocatedFault(Fault(path, f"stands here a second time, as {full!r} and without the prefix; keep one of them"), place)
        else:
            yield from self._value(full, path, node, place)

    def _value(self, full: str, path: YamlPath, node: Node, place: Place) -> Iterator[LocatedFault]:
        ours = full.startswith(f"{PROJECT}:")
        name = full.partition(":")[2]
        sealed = ciphertext(node)
        if ours and name in SECRET_KEYS:
            if sealed is not None:
                self.secrets[full] = sealed
                return
            what = "stands here in clear" if isinstance(node, ScalarNode) and node.value is not None else "is no encrypted value"
            remedy = f"replace it with: pulumi config set --secret {name}"
            spilled = ", and treat the old value as known to others" if "clear" in what else ""
            yield LocatedFault(Fault(path, f"{what}; {remedy}{spilled}"), place)
            return
        if sealed is not None and not ours:
            self.secrets[full] = sealed
            return
        yield from misplaced(node, _as_thought(path), place, allowed=SECRET_KEYS)
        if ours:
            yield from complaints(node, path)
        self.config[full] = _as_the_cli_passes(node)
        if full == f"{PROJECT}:{imported_keys.SECTION}":
            section = to_data(node)
            self.secrets |= {f"{PROJECT}:{key}": text for key, text in imported_keys.sealed(section).items()}
            if section != (kept := imported_keys.without_clear(section)):
                self.config[full] = json.dumps(kept, sort_keys=True)


def _as_the_cli_passes(node: Node) -> str:
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        return node.value
    text = json.dumps(to_data(node), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Go's encoder, which the CLI uses, escapes what would be markup.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
