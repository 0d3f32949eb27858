"""The order in which a deployer applies manifests, as data (`deployers.toml`): waves, hooks, pruning, reaction to rejections."""

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from inferplan.audit.manifest import Manifest
from inferplan.tables import table

_TABLE: Final = table("audit/deployers.toml")
_KINDS: Final = {kind: index for index, kind in enumerate(_TABLE["kinds"])}


@dataclass(frozen=True, kw_only=True)
class Wave:
    """Manifests that are applied one after the other; the next wave follows when they are ready if `waits` is set."""

    manifests: tuple[Manifest, ...]
    waits: bool = False
    is_hook: bool = False


@dataclass(frozen=True, kw_only=True)
class Deployer:
    """One row of `deployers.toml`, which explains the fields."""

    name: str
    manager: str
    order: str
    stops: str
    prunes: bool
    checks_first: bool = False
    merges: bool = False
    waits: bool = False
    recreates: bool = False
    first: tuple[str, ...] = ()
    wave: str = ""
    keep: tuple[str, ...] = ()
    recreate: tuple[str, ...] = ()
    hook: str = ""
    hook_weight: str = ""
    hook_deletion: str = ""
    install: list[list[str]] = field(default_factory=lambda: [[]])
    upgrade: list[list[str]] = field(default_factory=lambda: [[]])

    def waves(self, manifests: Iterable[Manifest], *, upgrade: bool) -> list[Wave]:
        """`manifests` in the order of an upgrade, else of a first installation. Hooks for other occasions are left out."""
        everything = tuple(manifests)
        phases = self.upgrade if upgrade else self.install
        waves: list[Wave] = []
        for index, names in enumerate(phases):
            # With three phases the objects themselves are in the middle one.
            plain = [each for each in everything if index == len(phases) // 2 and not self.is_hook(each)]
            waves += self._waves([*plain, *(each for each in everything if self._hooks(each) & set(names))])
        return waves

    def is_hook(self, manifest: Manifest) -> bool:
        return bool(self._hooks(manifest))

    def is_kept(self, manifest: Manifest) -> bool:
        return bool(self.keep) and self.keep[1] in manifest.annotation(self.keep[0])

    def is_recreated(self, manifest: Manifest) -> bool:
        """True if the object is deleted and created when a field is immutable."""
        return self.recreates or (bool(self.recreate) and self.recreate[1] in manifest.annotation(self.recreate[0]))

    def deletion_of(self, hook: Manifest) -> set[str]:
        """When the deployer deletes a hook: before the next one is created by default."""
        text = hook.annotation(self.hook_deletion) or "before-hook-creation"
        return {re.sub("(?<!^)(?=[A-Z])", "-", each.strip()).lower() for each in text.split(",")}

    def _hooks(self, manifest: Manifest) -> set[str]:
        return {each.strip() for each in manifest.annotation(self.hook).split(",")} - {""} if self.hook else set()

    def _waves(self, manifests: list[Manifest]) -> list[Wave]:
        by_weight: defaultdict[tuple[int, int], list[Manifest]] = defaultdict(list)
        for each in manifests:
            is_hook = self.is_hook(each)
            weight = _number(each.annotation(self.hook_weight if is_hook else self.wave))
            rank = self.first.index(each.kind) if each.kind in self.first else len(self.first)
            by_weight[weight, rank].append(each)
        waves = []
        for _, group in sorted(by_weight.items()):
            ordered = group if self.order == "file" else sorted(group, key=lambda each: (_KINDS.get(each.kind, len(_KINDS)), each.kind))
            hooks = all(map(self.is_hook, ordered))
            defines = bool(self.first) and any(each.kind == "CustomResourceDefinition" for each in ordered)
            waves.append(Wave(manifests=tuple(ordered), waits=self.waits or hooks or defines, is_hook=hooks))
        return waves


def _number(text: str) -> int:
    with contextlib.suppress(ValueError):
        return int(text)
    return 0


def deployer(name: str) -> Deployer:
    """The deployer `name`. Raises KeyError."""
    row: dict[str, Any] = dict(_TABLE["deployers"][name])
    row |= {key: tuple(row.get(key, ())) for key in ("first", "keep", "recreate")}
    return Deployer(name=name, **row)
