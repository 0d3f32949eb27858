"""Build the control plane's programs once and keep them, whole or not at all.

A result's directory is named by the digest of its inputs and appears by one rename, so a build that was killed leaves
nothing that looks finished. It refuses to build with changed module hashes (`-mod=readonly`).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rehearsal.errors import DiskFullError, ToolchainError
from rehearsal.files import cache_directory, disk_faults, exclusive, read_json, write_atomically
from rehearsal.progress import Progress, StepFinished, StepStarted, StepWaiting, silent
from rehearsal.toolchain.go import Go, find_go, lock_file
from rehearsal.toolchain.gobuild import build_program, module_directory
from rehearsal.toolchain.pins import SOURCES, Source

# Measured on 2026-11-21: 0.4 GB of programs, and 4.7 GB of Go, modules and build results where Go's own caches are ours too.
_PROGRAMS_SPACE = 500_000_000
_OWN_GO_SPACE = 5_500_000_000


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Where the programs are, and the digest that names this set of them.

    Attributes:
        programs: path by name: etcd, kwok, kube-apiserver, kube-controller-manager, kube-scheduler.
        stages: kwok's Stage files that make pretend nodes and pods move.
        version: the Kubernetes version, such as `v1.34.4`.
        digest: changes whenever any program would.
    """

    programs: dict[str, Path]
    stages: tuple[Path, ...]
    version: str
    digest: str


def _home() -> Path:
    return cache_directory() / "toolchain"


def _place(source: Source) -> Path:
    return _home() / f"{source.name}-{source.digest()[:24]}"


def _is_whole(source: Source) -> bool:
    """Whether every file that the manifest lists is there with its size; hashing 0.4 GB at each start would cost a second."""
    place = _place(source)
    manifest = read_json(place / "manifest.json")
    if manifest is None:
        return False
    wanted = {name for name, _ in (*source.programs, *source.data)}
    sizes = manifest.get("sizes", {})
    try:
        return set(sizes) == wanted and all((place / name).stat().st_size == size for name, size in sizes.items())
    except OSError:
        return False


def toolchain_digest() -> str:
    """The digest of the set of programs that this checkout pins, whether or not they are built."""
    return "-".join(source.digest()[:12] for source in SOURCES)


def built() -> Toolchain | None:
    """The toolchain if all of it is in the cache, else None; takes milliseconds and changes nothing."""
    if not all(_is_whole(source) for source in SOURCES):
        return None
    programs = {name: _place(source) / name for source in SOURCES for name, _ in source.programs}
    stages = tuple(_place(source) / name for source in SOURCES for name, _ in source.data)
    version = next(source.version for source in SOURCES if source.name == "kubernetes")
    return Toolchain(programs, stages, version, toolchain_digest())


def ensure(progress: Progress = silent) -> Toolchain:
    """The toolchain, built now where it is not in the cache yet (about 5 minutes on 2 cores, once).

    Two callers at once build once: the second waits and reports for what.

    Raises:
        ToolchainError: no Go can be had, or a build failed.
        DiskFullError: there is no space for it.
    """
    if found := built():
        return found
    home = _home()
    with disk_faults(home), exclusive(lock_file(), "building the control plane", progress):
        if found := built():
            return found
        _build_missing(home, SOURCES, progress)
    found = built()
    if found is None:
        raise ToolchainError(f"the programs in {home} vanished while they were built", "run the same command again")
    return found


def ensure_source(source: Source, progress: Progress = silent) -> Path:
    """The directory that holds the programs and files of a pinned `source` of one's own, built now where it is not in the cache yet.

    Raises what `ensure` raises.
    """
    home, place = _home(), _place(source)
    if not _is_whole(source):
        with disk_faults(home), exclusive(lock_file(), f"building {source.name}", progress):
            if not _is_whole(source):
                _build_missing(home, (source,), progress)
    return place


def _build_missing(home: Path, sources: Sequence[Source], progress: Progress) -> None:
    for leftover in home.glob(".building-*"):  # of a builder that was killed; the lock proves that none is alive
        shutil.rmtree(leftover, ignore_errors=True)
    missing = [source for source in sources if not _is_whole(source)]
    go = find_go(max(source.go_version for source in missing), progress)
    _require_space(home, _OWN_GO_SPACE if go.keeps_own_caches else _PROGRAMS_SPACE)
    total = sum(len(source.programs) for source in missing)
    index = 0
    for source in missing:
        index = _build_source(source, go, index, total, progress)
    go.discard_leftovers()


def _require_space(home: Path, needed: int) -> None:
    free = shutil.disk_usage(home).free
    if free < needed:
        raise DiskFullError(
            f"building the control plane needs {needed / 1e9:.1f} GB and the disk that holds {home} has {free / 1e9:.1f} GB free",
            "free some space there, or set INFERPLAN_CACHE_DIR to a directory on a larger disk",
        )


def _build_source(source: Source, go: Go, index: int, total: int, progress: Progress) -> int:
    staging = _home() / f".building-{source.name}"
    staging.mkdir()
    for name, package in source.programs:
        index += 1
        step = f"build {name} {source.version}"
        progress(StepStarted(step, index, total, f"Go {go.release_text}, once"))
        began = time.monotonic()

        def waiting(reason: str, step: str = step, began: float = began) -> None:
            progress(StepWaiting(step, reason, time.monotonic() - began))

        build_program(source, package, staging / name, go, waiting)
        size = (staging / name).stat().st_size
        progress(StepFinished(step, index, total, time.monotonic() - began, f"{size / 1e6:.0f} MB"))
    _copy_data(source, staging, go)
    names = [name for name, _ in (*source.programs, *source.data)]
    manifest = {"sizes": {name: (staging / name).stat().st_size for name in names}, "version": source.version, "go": go.release_text}
    write_atomically(staging / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True).encode())
    place = _place(source)
    shutil.rmtree(place, ignore_errors=True)
    staging.rename(place)
    return index


def _copy_data(source: Source, staging: Path, go: Go) -> None:
    if not source.data:
        return
    module = module_directory(source, go)
    copy = partial(shutil.copyfile, follow_symlinks=True)
    for name, path in source.data:
        copy(module / path, staging / name)
