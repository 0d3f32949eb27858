"""Errors with their paths in the stack file."""

from collections.abc import Collection, Iterable, Iterator

from inferplan.documents import errors
from inferplan.documents.errors import KeyPath, SpecError


def unknown(path: KeyPath, name: str, noun: str, names: Collection[str], section: str) -> SpecError:
    """The error of `name` at `path`, an unknown `noun` of `section`; it lists the closest and the
    known names.
    """
    return SpecError(path, errors.unknown(noun, name, names, remedy=f"Add one under {section}."))


def below(path: KeyPath, relative: Iterable[SpecError]) -> Iterator[SpecError]:
    """Errors whose paths start below `path`, with the whole path."""
    yield from (SpecError((*path, *each.path), each.message) for each in relative)
