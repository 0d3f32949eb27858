"""Download or build the control plane's programs once, into a directory named by the digest of its
inputs that appears by one rename.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferplan.documents.files import (
    cache_directory,
    disk_faults,
    exclusive,
    read_json,
    write_atomically,
)
from inferplan.errors import DiskFullError, ToolchainError
from inferplan.progress import Notice, Progress, StepFinished, StepStarted, StepWaiting, silent
from inferplan.rehearsal.toolchain.download import (
    MIRROR_VARIABLE,
    DownloadError,
    download_source,
    is_offered,
)
from inferplan.rehearsal.toolchain.go import Go, find_go, lock_file
from inferplan.rehearsal.toolchain.gobuild import build_program, module_directory, with_edits
from inferplan.rehearsal.toolchain.pins import SOURCES, Source

# Measured on 2026-11-21: 0.4 GB of programs, 0.4 GB of archives, and 4.7 GB of Go, modules and
# build results where Go's own caches are ours too.
_PROGRAMS_SPACE = 1_000_000_000
_OWN_GO_SPACE = 5_500_000_000


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The built programs by name, kwok's Stage files for fake nodes and pods, the Kubernetes
    version, and a digest of all inputs.
    """

    programs: dict[str, Path]
    stages: tuple[Path, ...]
    version: str
    digest: str


def _home() -> Path:
    return cache_directory() / "toolchain"


def _directory(source: Source) -> Path:
    return _home() / f"{source.name}-{source.digest()[:24]}"


def _is_whole(source: Source) -> bool:
    """True if each file of the manifest has its size; hashing 0.4 GB would cost a second per start."""
    directory = _directory(source)
    manifest = read_json(directory / "manifest.json")
    if manifest is None:
        return False
    names = {name for name, _ in (*source.programs, *source.data)}
    sizes = manifest.get("sizes", {})
    try:
        return set(sizes) == names and all(
            (directory / name).stat().st_size == size for name, size in sizes.items()
        )
    except OSError:
        return False


def toolchain_digest() -> str:
    """The digest of the programs that this checkout pins, built or not."""
    return "-".join(source.digest()[:12] for source in SOURCES)


def built() -> Toolchain | None:
    """The toolchain if all of it is in the cache, else None."""
    if not all(_is_whole(source) for source in SOURCES):
        return None
    programs = {
        name: _directory(source) / name for source in SOURCES for name, _ in source.programs
    }
    stages = tuple(_directory(source) / name for source in SOURCES for name, _ in source.data)
    version = next(source.version for source in SOURCES if source.name == "kubernetes")
    return Toolchain(programs, stages, version, toolchain_digest())


def ensure(progress: Progress = silent) -> Toolchain:
    """The toolchain; missing programs are downloaded, or built if that fails. Raises
    ToolchainError, DiskFullError.
    """
    _ensure(SOURCES, "building the control plane", progress)
    toolchain = built()
    if toolchain is None:
        raise ToolchainError(
            f"the programs in {_home()} were deleted during the build", "run the same command again"
        )
    return toolchain


def ensure_source(source: Source, progress: Progress = silent) -> Path:
    """The directory of the programs and files of another pinned `source`, built if missing. Raises
    what `ensure` raises.
    """
    return ensure_sources((source,), progress)[0]


def ensure_sources(sources: Sequence[Source], progress: Progress = silent) -> tuple[Path, ...]:
    """The directories of `sources`, as `ensure_source`, built in one run because they share
    modules.
    """
    _ensure(sources, f"building {', '.join(source.name for source in sources)}", progress)
    return tuple(map(_directory, sources))


def built_source(source: Source) -> Path | None:
    """The directory of a pinned `source` if all of it is in the cache, else None."""
    return _directory(source) if _is_whole(source) else None


def _ensure(sources: Sequence[Source], purpose: str, progress: Progress) -> None:
    if all(map(_is_whole, sources)):
        return
    home = _home()
    with disk_faults(home), exclusive(lock_file(), purpose, progress):
        missing = [source for source in sources if not _is_whole(source)]
        if not missing:
            return
        for leftover in home.glob(
            ".building-*"
        ):  # of an interrupted build; the lock excludes a running one
            shutil.rmtree(leftover, ignore_errors=True)
        _require_space(home, _PROGRAMS_SPACE)
        total = sum(len(source.programs) for source in missing)
        unavailable = [source for source in missing if not _download(source, total, progress)]
        if unavailable:
            _build(unavailable, total, progress)


def _download(source: Source, total: int, progress: Progress) -> bool:
    """True if the programs of `source` were downloaded; if they cannot be, the reason is reported."""
    if not is_offered(source):
        return False
    staging, step, last = (
        _home() / f".building-{source.name}",
        f"download {source.name} {source.version}",
        len(source.programs),
    )
    began = time.monotonic()
    staging.mkdir()
    progress(StepStarted(step, 1, total, "once"))
    try:
        download_source(
            source,
            staging,
            _home() / "downloads",
            lambda reason: progress(StepWaiting(step, reason, time.monotonic() - began)),
        )
    except DownloadError as error:
        shutil.rmtree(staging, ignore_errors=True)
        progress(
            Notice(
                f"{source.name} is built instead of downloaded. {error}. To use a mirror, set"
                f" {MIRROR_VARIABLE}"
            )
        )
        return False
    _finish(source, staging, "download")
    progress(StepFinished(step, last, total, time.monotonic() - began))
    return True


def _build(sources: Sequence[Source], total: int, progress: Progress) -> None:
    cores = os.cpu_count() or 1
    minutes = math.ceil(sum(source.cpu_minutes for source in sources) / cores)
    names = ", ".join(source.name for source in sources)
    progress(
        Notice(f"building {names} from Go modules, once: about {minutes} minutes on {cores} cores")
    )
    go = find_go(max(source.go_version for source in sources), progress)
    if go.keeps_own_caches:
        _require_space(_home(), _OWN_GO_SPACE)
    index = total - sum(len(source.programs) for source in sources)
    for source in sources:
        index = _build_source(source, go, index, total, progress)
    go.discard_leftovers()


def _require_space(home: Path, needed: int) -> None:
    free = shutil.disk_usage(home).free
    if free < needed:
        raise DiskFullError(
            f"building the control plane needs {needed / 1e9:.1f} GB and the disk that holds {home}"
            f" has {free / 1e9:.1f} GB free",
            "free some space there, or set INFERPLAN_CACHE_DIR to a directory on a larger disk",
        )


def _build_source(source: Source, go: Go, index: int, total: int, progress: Progress) -> int:
    staging, copies = (
        _home() / f".building-{source.name}",
        _home() / f".building-{source.name}-copy",
    )
    staging.mkdir()
    edited = with_edits(source, copies, go)
    for name, package in source.programs:
        index += 1
        step = f"build {name} {source.version}"
        progress(StepStarted(step, index, total, f"Go {go.release_text}, once"))
        began = time.monotonic()

        def waiting(reason: str, step: str = step, began: float = began) -> None:
            progress(StepWaiting(step, reason, time.monotonic() - began))

        build_program(edited, package, staging / name, go, waiting)
        size = (staging / name).stat().st_size
        progress(StepFinished(step, index, total, time.monotonic() - began, f"{size / 1e6:.0f} MB"))
    _copy_data(source, staging, go)
    _finish(source, staging, f"Go {go.release_text}")
    shutil.rmtree(copies, ignore_errors=True)
    return index


def _finish(source: Source, staging: Path, origin: str) -> None:
    """Move the complete directory to its place, with a manifest."""
    names = [name for name, _ in (*source.programs, *source.data)]
    manifest = {
        "sizes": {name: (staging / name).stat().st_size for name in names},
        "version": source.version,
        "origin": origin,
    }
    write_atomically(
        staging / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True).encode()
    )
    directory = _directory(source)
    shutil.rmtree(directory, ignore_errors=True)
    staging.rename(directory)


def _copy_data(source: Source, staging: Path, go: Go) -> None:
    for name, path in source.data:
        module, _, inside = path.rpartition(":")
        shutil.copyfile(module_directory(source, go, module) / inside, staging / name)
