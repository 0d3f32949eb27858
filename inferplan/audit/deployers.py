"""The order in which a deployer applies manifests, as data (`deployers.toml`): waves, hooks,
pruning, reaction to rejections.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Self

from inferplan.audit.manifest import Manifest
from inferplan.audit.merge import differences
from inferplan.tables import table

_TABLE: Final = table("audit/deployers.toml")
DEPLOYERS: Final = tuple(_TABLE["deployers"])
_WHOLE: Final = re.compile("(ServerSideApply|Replace)=true")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_LONGEST_ANNOTATIONS: Final = 1 << 18
_KINDS: Final = {kind: index for index, kind in enumerate(_TABLE["kinds"])}


@dataclass(frozen=True, kw_only=True)
class Wave:
    """Manifests that are applied one after the other; the next wave follows when they are ready if
    `waits` is set.
    """

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
    checks_first: str = ""
    merges: bool = False
    annotates: bool = False
    waits: bool = False
    recreates: bool = False
    first: Sequence[str] = ()
    wave: str = ""
    keep: Sequence[str] = ()
    recreate: Sequence[str] = ()
    earlier: str = ""
    earlier_hook: str = ""
    hook: str = ""
    hook_weight: str = ""
    hook_deletion: str = ""
    install: Sequence[Sequence[str]] = ((),)
    upgrade: Sequence[Sequence[str]] = ((),)

    def adopting(self) -> Self:
        """The deployer of a state that runs already: its order does not matter, and nothing stops it."""
        return replace(
            self,
            order="kinds",
            first=_TABLE["deployers"]["flux"]["first"],
            stops="never",
            checks_first="",
            waits=False,
        )

    def waves(self, manifests: Iterable[Manifest], *, upgrade: bool) -> list[Wave]:
        """`manifests` in the order of an upgrade, else of a first installation. Hooks for other
        occasions are left out.
        """
        phases = self.upgrade if upgrade else self.install
        groups: defaultdict[tuple[int, int, int], list[Manifest]] = defaultdict(list)
        for each in manifests:
            hooks = self._hooks(each)
            weight = each.annotation(self.hook_weight if hooks else self.wave)
            ranks = (index for index, name in enumerate(self.first) if fnmatchcase(each.kind, name))
            rank = next(ranks, len(self.first))
            # With three phases, the objects themselves belong to the middle phase.
            for phase, names in enumerate(phases):
                if hooks & {*names} if hooks else phase == len(phases) // 2:
                    groups[
                        phase, int(weight) if re.fullmatch("[-+]?[0-9]+", weight) else 0, rank
                    ].append(each)
        return [self._wave(groups[place]) for place in sorted(groups)]

    def _wave(self, group: list[Manifest]) -> Wave:
        if self.order == "kinds":
            group = sorted(group, key=lambda each: (_KINDS.get(each.kind, len(_KINDS)), each.kind))
        hooks = all(map(self._hooks, group))
        defines = bool(self.first) and any(
            each.kind == "CustomResourceDefinition" for each in group
        )
        return Wave(manifests=tuple(group), waits=self.waits or hooks or defines, is_hook=hooks)

    def is_hook(self, manifest: Manifest) -> bool:
        return bool(self._hooks(manifest))

    def is_too_long(self, manifest: Manifest) -> bool:
        """True if the deployer writes the object into an annotation, which the API server limits."""
        options = manifest.annotation(self.recreate[0]) if self.recreate else ""
        if not self.annotates or _WHOLE.search(options):
            return False
        text = json.dumps(manifest.body, separators=(",", ":"), ensure_ascii=False)
        return len(text.encode()) + len(_LAST_APPLIED) > _LONGEST_ANNOTATIONS

    def is_kept(self, manifest: Manifest) -> bool:
        return _has(manifest, self.keep)

    def is_forced(self, manifest: Manifest) -> bool:
        """True if the object is deleted and created when the API server rejects its update."""
        return _has(manifest, self.recreate)

    def replaced_field(self, before: Manifest | None, manifest: Manifest) -> str:
        """The changed field for which the deployer replaces the object without asking, "" if there
        is none.
        """
        fields = tuple(_TABLE["replaced"].get(manifest.kind, ())) if self.recreates else ()
        changed = differences(before.body, manifest.body) if before and fields else ()
        return next((each for each in changed if each.startswith(fields)), "")

    def deletion_of(self, hook: Manifest) -> set[str]:
        """When the deployer deletes a hook: before the next one is created by default."""
        text = hook.annotation(self.hook_deletion) or "before-hook-creation"
        return {re.sub("(?<!^)(?=[A-Z])", "-", each.strip()).lower() for each in text.split(",")}

    def _hooks(self, manifest: Manifest) -> set[str]:
        return (
            {each.strip() for each in manifest.annotation(self.hook).split(",")} - {""}
            if self.hook
            else set()
        )


def _has(manifest: Manifest, mark: Sequence[str]) -> bool:
    """True if `manifest` has the annotation `mark[0]` with the text `mark[1]` in its value."""
    return bool(mark) and mark[1] in manifest.annotation(mark[0])


def deployer(name: str) -> Deployer:
    """The deployer `name`. Raises KeyError."""
    return Deployer(name=name, **_TABLE["deployers"][name])
