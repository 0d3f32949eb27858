"""What a preheat would do if it ran now: which files it would move, link or leave, and which old rounds it would remove.

It lists the source and looks at the share where both can be reached. It writes nothing, locks nothing and moves no file.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from components.preheat.payload.errors import PreheatError
from components.preheat.payload.file_checks import refuse_names, wanted
from components.preheat.payload.progress import Progress
from components.preheat.payload.request import Request
from components.preheat.payload.rounds import Shelf
from components.preheat.payload.source import SourceFile
from components.preheat.payload.sources import open_source
from components.preheat.payload.staging import Staging, newest_generation, versions_in
from components.preheat.payload.standing import standing

Fate = Literal["moved", "linked", "staged"]
# Nobody waits half an hour in front of a terminal for a store that is down.
_TRIES, _BACKOFF_SECONDS, _STALL_SECONDS = 2, 0.2, 15.0


@dataclass(frozen=True)
class Listing:
    """What the source holds: the files that pass include and exclude, how many do not, and why a run would refuse them."""

    name: str
    files: tuple[SourceFile, ...]
    left_out: int
    refusal: str | None

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a share holds of a model. `fates` says by path how each file gets there; empty when the round is READY as it is."""

    ready: bool
    damage: tuple[str, ...]
    rounds: tuple[str, ...]
    fates: Mapping[str, Fate]
    removed: tuple[str, ...]
    free_bytes: int


class _Quiet(Progress):
    """Keeps retries to itself: what a terminal is told in the end is enough."""

    def say(self, message: str) -> None:
        """Nothing: there is no log."""


def list_source(request: Request) -> Listing:
    """List the source of `request`, with the credentials that this process has. Raises PreheatError."""
    brief = replace(request, retries=_TRIES, backoff_seconds=_BACKOFF_SECONDS, stall_seconds=_STALL_SECONDS)
    source = open_source(brief, _Quiet(request.job, None, request.report_seconds), threading.Event())
    found = sorted(source.files(), key=lambda file: file.path)
    chosen = [file for file in found if wanted(file.path, request.include, request.exclude) and not file.path.startswith(".inferplan/")]
    refusal = None if chosen else "no file passes preheat.include and preheat.exclude; correct them, or weights.path"
    try:
        refuse_names([file.path for file in chosen], request.allow_pickle)
    except PreheatError as failure:
        refusal = str(failure)
    return Listing(source.name, tuple(chosen), len(found) - len(chosen), refusal)


def look_at(request: Request, files: Iterable[SourceFile]) -> Outlook:
    """What the share at `request.target` holds of `files`. Raises PreheatError or OSError where it cannot be read."""
    staging = newest_generation(request)
    shelf = Shelf(request, staging)
    rounds = shelf.rounds()
    stands = standing(request, None)
    ready = stands.manifest is not None
    there = {} if ready else _versions([*rounds, *([request.final] if request.final.is_dir() else [])])
    fates = {} if ready else {file.path: _fate(file, there, staging) for file in files}
    return Outlook(
        ready=ready,
        damage=stands.problems,
        rounds=tuple(path.name for path in rounds),
        fates=fates,
        removed=tuple(path.name for path in shelf.surplus()),
        free_bytes=shutil.disk_usage(request.target).free,
    )


def mounted(request: Request, *, share: Path, source: Path | None) -> Request:
    """`request` as it reads on this machine, where the share is at `share` and a source that is mounted too at `source`."""
    return replace(request, target=share, root=request.root if source is None else str(source), mount="")


def _versions(directories: Iterable[Path]) -> set[tuple[str, str, int]]:
    """Path, origin and size of every file that a manifest in one of these directories names."""
    known = (versions_in(directory) or {} for directory in directories)
    return {(path, origin, size) for each in known for path, (origin, size) in each.items()}


def _fate(file: SourceFile, there: Collection[tuple[str, str, int]], staging: Staging) -> Fate:
    if staging.holds(file):
        return "staged"
    return "linked" if (file.path, file.origin, file.size) in there else "moved"
