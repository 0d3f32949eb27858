"""Checks of READY directories: byte by byte for `inferplan verify`, and by names and sizes in a
server's init container.

The Job ends before a server's Deployment exists; the init container also protects pods that start
later, on a share that someone has changed meanwhile. It reads no model file. Nothing here writes,
repairs or removes a file.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inferplan.components.preheat.payload.errors import PreheatError
from inferplan.components.preheat.payload.manifest import (
    DAMAGED,
    READY,
    SIZES,
    Difference,
    Manifest,
    check,
    read,
)

_CHECK = """\
cd "$dir" 2>/dev/null && test -s READY && test -f SIZES || fail "$ready is missing: the model's files are not verified"
count=0
while read -r size path; do
  count=$((count + 1))
  found=$(stat -L -c %s "$path" 2>/dev/null) || found=$(wc -c < "$path" 2>/dev/null) || fail "$dir/$path is missing: expected $size bytes"
  test "$found" -eq "$size" || fail "$dir/$path: expected $size bytes, found $found bytes"
done < SIZES
if command -v find >/dev/null; then
  found=$(find . -type f ! -name '.nfs*' ! -path ./READY ! -path ./SIZES ! -path ./READY.damaged | wc -l)
  test "$found" -le "$count" || fail "$dir holds $found files: expected $count"
fi
""".replace("SIZES", SIZES)
_ADVICE = "look at the preheat Job, or raise preheat.round and run up again"


@dataclass(frozen=True)
class Verdict:
    """The result for one directory: `problem` if it could not be checked, else its differences from
    READY.
    """

    directory: Path
    manifest: Manifest | None
    differences: tuple[Difference, ...] = ()
    problem: str | None = None

    @property
    def good(self) -> bool:
        """True if the directory holds exactly the files of READY."""
        return self.manifest is not None and not self.differences and self.problem is None

    @property
    def remedy(self) -> str | None:
        if self.good:
            return None
        return (
            "raise preheat.round of the model and run up again; servers keep the round they run on"
            " until the new one is READY"
        )


def caches(path: Path) -> list[Path]:
    """The model directories at `path`: itself, or those below it on a share. Raises ValueError if
    there is none.
    """
    if not path.is_dir():
        raise ValueError(
            f"{path} is not a directory. Name a share, or a directory with a {READY} file"
        )
    if _marked(path):
        return [path]
    directories = sorted(
        each for each in (*path.glob("*/*"), *path.glob("*")) if each.is_dir() and _marked(each)
    )
    if not directories:
        raise ValueError(
            f"no {READY} file at {path} or up to two levels below. Name a share, or a directory"
            " that a preheat made"
        )
    return directories


def verify(
    directory: Path, *, every_byte: bool = True, counted: Callable[[int], None] | None = None
) -> Verdict:
    """Compare a cache with its READY file, byte by byte or by size and time. `counted` gets the
    bytes of each block, from several threads.
    """
    try:
        manifest = read(directory)
    except (PreheatError, OSError) as error:
        return Verdict(directory, None, problem=str(error))
    if manifest is None:
        return Verdict(
            directory,
            None,
            problem=(
                f"{READY} is missing: a preheat found its files damaged and has not repaired"
                " them yet"
            ),
        )
    try:
        differences = check(directory, manifest, every_byte=every_byte, counted=counted)
    except OSError as error:
        return Verdict(directory, manifest, problem=str(error))
    return Verdict(directory, manifest, tuple(differences))


def _marked(directory: Path) -> bool:
    return (directory / READY).is_file() or (directory / DAMAGED).is_file()


def ready_check(mount_path: str) -> list[str]:
    """The command of an init container that succeeds only if the mounted directory is READY and
    every file has its size.

    It needs a POSIX shell and coreutils, and runs in the image of the preheat.
    """
    fail = f'fail() {{ echo "$1; "{shlex.quote(_ADVICE)} >&2; exit 1; }}\n'
    ready = shlex.quote(f"{mount_path.rstrip('/')}/{READY}")
    paths = f"ready={ready}\ndir=${{ready%/*}}\n"
    return ["sh", "-c", fail + paths + _CHECK]
