"""Cross-checks between the sections of a stack. Pure, and all errors at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from inferplan.components.spec import KeyPath, SpecError
from inferplan.stackfile import errors

if TYPE_CHECKING:
    from inferplan.stackfile.stack import StackSettings


def check(settings: StackSettings, *, has_key_seed: bool) -> Iterator[SpecError]:
    """Check the sections of a stack against each other.

    `has_key_seed` says whether the stack has an `apiKeySeed`; the checks do not need its value.
    """
    from inferplan.stackfile.checks import access, capacity, data, egress, key_history, names, paths, placement, queues

    yield from names.errors(settings)
    yield from placement.errors(settings)
    yield from capacity.errors(settings)
    yield from queues.errors(settings)
    yield from data.errors(settings)
    yield from egress.errors(settings)
    yield from paths.errors(settings)
    yield from settings.cluster.errors(settings)
    yield from access.errors(settings, has_key_seed=has_key_seed)
    yield from key_history.errors(settings)


def unknown(path: KeyPath, name: str, noun: str, known: Collection[str], section: str) -> SpecError:
    """The error of `name` at `path`, an unknown `noun` of `section`; it lists the closest and the known names."""
    return SpecError(path, errors.unknown(noun, name, known, remedy=f"Add one under {section}."))


def below(path: KeyPath, relative: Iterable[SpecError]) -> Iterator[SpecError]:
    """Errors whose paths start below `path`, with the whole path."""
    yield from (SpecError((*path, *each.path), each.message) for each in relative)
