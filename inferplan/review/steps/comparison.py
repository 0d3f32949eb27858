"""The values of one resource that a change makes different, by path, and how a report shows them."""

import json
from collections.abc import Iterable
from functools import cached_property
from operator import ne
from typing import Any

from inferplan.kube.disclosure.disclosure import disclosed_path, shown_key
from inferplan.kube.paths import MISSING, parse, text_of, value_at
from inferplan.pulumi_engine.reading.changes import PropertyChange, property_changes
from inferplan.pulumi_engine.reading.events import Step
from inferplan.pulumi_engine.reading.values import veil, veil_at
from inferplan.review.steps.leaves import differing_leaves, leaves, path_in, value_in


class Comparison:
    """The values of `real` that differ, by path, and how `step`, its copy, shows them. `others` are
    changes that the inputs do not show.
    """

    def __init__(self, step: Step, changes: Iterable[PropertyChange], real: Step) -> None:
        self.copies = step.old_inputs, step.new_inputs
        self.inputs = old, new = real.old_inputs, real.new_inputs
        self.type, self.step, self.real = step.type, step, real
        self.leaves = differing_leaves(old, new), differing_leaves(new, old)
        self.paths = [
            path
            for path in dict.fromkeys((*self.leaves[0], *self.leaves[1]))
            if ne(*self.values(path))
        ]
        places = tuple(
            {disclosed_path(text_of(leaf.place)) for side in self.leaves for leaf in side.values()}
        )
        # Secrets look the same on both sides, and drift of the live object is in its outputs.
        self.others = {
            each.path: each
            for each in changes
            if not each.path.startswith(places) and _is_same(*self.copies, each.path)
        }
        self.paths = [path for path in self.paths if not self._gets_parts(path)] + [*self.others]

    def _gets_parts(self, path: str) -> bool:
        """True for an empty map or list on one side that has parts on the other: the parts are
        compared.
        """
        old, new = self.values(path)
        side = 0 if old is MISSING else 1 if new is MISSING else None
        if side is None or (new if side == 0 else old) not in ({}, []):
            return False
        return any(each.startswith((f"{path}.", f"{path}[")) for each in self.leaves[side])

    def values(self, path: str) -> tuple[Any, Any]:
        if path not in self.leaves[0] and path not in self.leaves[1]:
            change = self.real_others.get(path, self.others[path])
            return _read(change.old), _read(change.new)
        old, new = (MISSING if path not in each else each[path].value for each in self.leaves)
        return old, new

    def shown(self, side: int, path: str) -> Any:
        """The value at `path` as a report may show it, of side 0 before or 1 after the change."""
        if path in self.others:
            return _read((self.others[path].old, self.others[path].new)[side])
        leaf = self.leaves[side].get(path)
        if leaf is None:
            return self.all_shown[side].get(self.shown_path(path), MISSING)
        place = tuple(shown_key(each) if isinstance(each, str) else each for each in leaf.place)
        return value_in(veil_at(self.copies[side], place, self.type), leaf.inside)

    def shown_path(self, path: str) -> str:
        """`path` as a report may show it."""
        for copied, side in zip(self.copies, self.leaves, strict=True):
            if leaf := side.get(path):
                return path_in(copied, (*leaf.place, *leaf.inside))
        return path

    @cached_property
    def real_others(self) -> dict[str, PropertyChange]:
        """The changes behind `others` with their real values, by the path that a report shows."""
        changes = () if self.real is self.step else property_changes(self.real)
        return {disclosed_path(each.path): each for each in changes}

    @cached_property
    def all_shown(self) -> tuple[dict[str, Any], ...]:
        return tuple(leaves(veil(each, self.type)) for each in self.copies)

    @cached_property
    def former(self) -> dict[str, Any]:
        """Every value before the change, the unchanged ones too."""
        return leaves(self.inputs[0])

    @cached_property
    def remaining(self) -> dict[str, Any]:
        """Every value after the change, the unchanged ones too."""
        return leaves(self.inputs[1])


def _is_same(old: dict[str, Any], new: dict[str, Any], text: str) -> bool:
    try:
        path = parse(text)
    except ValueError:
        return True
    return value_at(old, path) == value_at(new, path)


def _read(text: str) -> Any:
    """The value that `show` wrote as `text`."""
    try:
        return json.loads(text) if text else MISSING
    except ValueError:
        return text
