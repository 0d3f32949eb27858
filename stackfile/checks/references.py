"""Wording of a name that stands for nothing, the same for every section."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from components.spec import KeyPath, SpecError


def unknown(path: KeyPath, name: str, noun: str, known: Collection[str], section: str) -> SpecError:
    """The error of `name`, given at `path`, which is no `noun` under `section`; says the nearest and the known ones."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}" if near else ""
    listed = f"this stack has {', '.join(sorted(known))}" if known else f"this stack has none under {section}"
    return SpecError(path, f"{name!r} is no {noun} of this stack{hint}; {listed}")
