"""Finds the manifests that one side of an audit consists of: a file or a folder of manifests."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from inferplan.audit.documents import MAX_OBJECTS, manifests_in
from inferplan.audit.manifest import InputError, Manifest

_SUFFIXES = (".yaml", ".yml", ".json")


def read_manifests(path: Path) -> tuple[Manifest, ...]:
    """The objects in the file or folder `path`, in the order in which kubectl applies them. Raises InputError with every error."""
    if not path.exists():
        raise InputError([f"{path}: There is no such file or folder. Name a file or folder of manifests."])
    manifests: list[Manifest] = []
    errors: list[str] = []
    for file in _files(path):
        try:
            manifests += manifests_in(file.read_bytes(), str(file))
        except OSError as error:
            errors.append(f"{file}:1: The file cannot be read: {error.strerror}. Check its permissions.")
        except InputError as error:
            errors += error.errors
        if len(manifests) > MAX_OBJECTS:
            over = manifests[MAX_OBJECTS].place
            raise InputError([f"{over}: Object {MAX_OBJECTS + 1:,} is here; an audit takes at most {MAX_OBJECTS:,}. Audit parts of it."])
    if errors:
        raise InputError(errors)
    return tuple(manifests)


def doubled(manifests: Iterable[Manifest], namespace: str) -> Iterator[str]:
    """An error for each object that two of `manifests` declare; objects without a namespace are in `namespace`."""
    first: dict[tuple[str, str, str, str], str] = {}
    for each in manifests:
        identity = each.group, each.kind, each.namespace or namespace, each.name
        if identity in first:
            yield f"{each.place}: {each.kind} {each.name} is declared twice, first in {first[identity]}. Remove one."
        first.setdefault(identity, each.place)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for each in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in each.relative_to(path).parts)
        if not hidden and each.suffix in _SUFFIXES and each.is_file():
            if not each.resolve().is_relative_to(path.resolve()):
                raise InputError([f"{each}:1: The link leaves the folder. Replace it with a file."])
            yield each
