"""Checks model caches by their READY files, anywhere: on a share, on a node's disk, on a laptop.

It reads and reports; it never writes, repairs or removes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components.preheat.payload.errors import PreheatError
from components.preheat.payload.manifest import DAMAGED, READY, Finding, Manifest, check, read


@dataclass(frozen=True)
class Verdict:
    """What one directory is worth: `problem` when it cannot be judged, else what differs from its manifest."""

    directory: Path
    manifest: Manifest | None
    findings: tuple[Finding, ...] = ()
    problem: str | None = None

    @property
    def good(self) -> bool:
        """Whether the directory holds exactly what its READY file says."""
        return self.manifest is not None and not self.findings and self.problem is None

    @property
    def remedy(self) -> str | None:
        """What to do about it, None when nothing is wrong."""
        if self.good:
            return None
        return "raise preheat.round of the model and run up again; servers keep the round they run on until the new one is READY"


def caches(path: Path) -> list[Path]:
    """The model directories at `path`: itself, or those below it on a share.

    Raises ValueError when there is none.
    """
    if not path.is_dir():
        raise ValueError(f"{path} is not a directory; give a share, or a directory with a {READY} file")
    if _marked(path):
        return [path]
    found = sorted(each for each in (*path.glob("*/*"), *path.glob("*")) if each.is_dir() and _marked(each))
    if not found:
        raise ValueError(f"no {READY} file at {path} or up to two levels below; give a share, or a directory that a preheat made")
    return found


def verify(
    directory: Path, *, every_byte: bool = True, workers: int | None = None, counted: Callable[[int], None] | None = None
) -> Verdict:
    """Compare a cache with its READY file, byte by byte or by size and time. `counted` hears of bytes read, from several threads."""
    try:
        manifest = read(directory)
    except (PreheatError, OSError) as error:
        return Verdict(directory, None, problem=str(error))
    if manifest is None:
        return Verdict(directory, None, problem=f"{READY} is missing: a preheat found its files damaged and has not made them good yet")
    try:
        findings = check(directory, manifest, every_byte=every_byte, workers=workers, counted=counted)
    except OSError as error:
        return Verdict(directory, manifest, problem=str(error))
    return Verdict(directory, manifest, tuple(findings))


def _marked(directory: Path) -> bool:
    return (directory / READY).is_file() or (directory / DAMAGED).is_file()
