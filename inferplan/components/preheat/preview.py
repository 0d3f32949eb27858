"""A preview of a preheat, which writes nothing: files that it would copy, link or keep, and old
rounds that it would remove.
"""

import os
import shutil
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from inferplan.components.preheat.payload.errors import PreheatError
from inferplan.components.preheat.payload.file_checks import refuse_names
from inferplan.components.preheat.payload.progress import Progress
from inferplan.components.preheat.payload.request import Request
from inferplan.components.preheat.payload.rounds import Rounds, ready_state
from inferplan.components.preheat.payload.run import chosen_files
from inferplan.components.preheat.payload.source import SourceFile
from inferplan.components.preheat.payload.sources import open_source
from inferplan.components.preheat.payload.staging import Staging, newest_generation, versions_in

Action = Literal["moved", "linked", "staged"]
# Few retries: no one waits half an hour at a terminal for a store that is down.
_TRIES, _BACKOFF_SECONDS, _STALL_SECONDS = 2, 0.2, 15.0


@dataclass(frozen=True)
class Listing:
    """The files of a source that pass include and exclude, how many do not, and why a run would
    reject them.
    """

    name: str
    files: tuple[SourceFile, ...]
    left_out: int
    refusal: str | None

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True)
class SharePreview:
    """A model on a share. `actions` maps each path to how the file gets there; empty if the round
    is READY.
    """

    ready: bool
    damage: tuple[str, ...]
    rounds: tuple[str, ...]
    actions: Mapping[str, Action]
    removed: tuple[str, ...]
    free_bytes: int


class _Quiet(Progress):
    def say(self, message: str) -> None:
        """Print nothing."""


def list_source(request: Request) -> Listing:
    """List the source of `request`, with the credentials that this process has. Raises
    PreheatError.
    """
    brief = replace(
        request, retries=_TRIES, backoff_seconds=_BACKOFF_SECONDS, stall_seconds=_STALL_SECONDS
    )
    source = open_source(
        brief, _Quiet(request.job, None, request.report_seconds), threading.Event()
    )
    files = source.files()
    matches = chosen_files(request, files)
    refusal = (
        None
        if matches
        else "no file passes preheat.include and preheat.exclude. Correct them, or weights.path."
    )
    try:
        refuse_names([file.path for file in matches], request.allow_pickle)
        source.check(matches)
    except PreheatError as failure:
        refusal = str(failure)
    return Listing(source.name, tuple(matches), len(files) - len(matches), refusal)


def preview_share(request: Request, files: Iterable[SourceFile]) -> SharePreview:
    """The preview of `files` on the share at `request.target`. Raises PreheatError or OSError if it
    cannot be read.
    """
    staging = newest_generation(request)
    rounds = Rounds(request, staging)
    others = rounds.ready()
    state = ready_state(request, None)
    ready = state.manifest is not None
    versions = (
        set()
        if ready
        else _versions([*others, *([request.final] if request.final.is_dir() else [])])
    )
    actions = {} if ready else {file.path: _action(file, versions, staging) for file in files}
    return SharePreview(
        ready=ready,
        damage=state.problems,
        rounds=tuple(path.name for path in others),
        actions=actions,
        removed=tuple(path.name for path in rounds.surplus()),
        free_bytes=shutil.disk_usage(request.target).free,
    )


def mounted(request: Request, *, share: Path, source: Path | None) -> Request:
    """`request` for this machine, where the share is mounted at `share` and the source at `source`."""
    # Only the root of a mounted source has the model's path below the mount point; another root is
    # replaced as a whole.
    below = os.path.relpath(request.root, request.mount) if request.mount else ""
    return replace(
        request,
        target=share,
        root=request.root if source is None else str(source / below),
        mount="",
    )


def _versions(directories: Iterable[Path]) -> set[tuple[str, str, int]]:
    """Path, origin and size of every file that a manifest in one of these directories names."""
    versions = (versions_in(directory) or {} for directory in directories)
    return {(path, origin, size) for each in versions for path, (origin, size) in each.items()}


def _action(
    file: SourceFile, versions: Collection[tuple[str, str, int]], staging: Staging
) -> Action:
    if staging.holds(file):
        return "staged"
    return "linked" if (file.path, file.origin, file.size) in versions else "moved"
