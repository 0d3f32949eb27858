"""The error of a name that refers to nothing, the same for every section."""

from __future__ import annotations

from collections.abc import Collection

from components.spec import KeyPath, SpecError
from stackfile import errors


def unknown(path: KeyPath, name: str, noun: str, known: Collection[str], section: str) -> SpecError:
    """The error of `name` at `path`, an unknown `noun` of `section`; it lists the closest and the known names."""
    return SpecError(path, errors.unknown(noun, name, known, remedy=f"Add one under {section}."))
