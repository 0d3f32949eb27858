"""Writes rendered manifests to a folder that holds nothing else, and removes what an earlier run
wrote.
"""

from pathlib import Path

from inferplan.commands.render.manifests import KUSTOMIZATION, MARK, Manifests
from inferplan.errors import OperationError, RequestError
from inferplan.workspace.project import short_path

_SHOWN_NAMES = 10


def write_manifests(manifests: Manifests, folder: Path) -> list[str]:
    """Make `folder` hold exactly the files, and return the names of those that changed. Raises
    RequestError for a folder with other files.
    """
    earlier = _written_before(folder)
    foreign = (
        sorted({each.name for each in folder.iterdir()} - earlier - {KUSTOMIZATION})
        if folder.is_dir()
        else []
    )
    if foreign or (folder.exists() and not folder.is_dir()):
        names = ", ".join(foreign[:_SHOWN_NAMES]) or short_path(folder)
        raise RequestError(
            f"{short_path(folder)} holds files that render did not write: {names}. Name another"
            " folder, or move them away"
        )
    changed = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The list of files comes first: after an interrupt, the next run knows what this one wrote.
        for name in sorted(manifests.files, key=lambda name: name != KUSTOMIZATION):
            path = folder / name
            if not path.is_file() or path.read_bytes() != manifests.files[name]:
                path.write_bytes(manifests.files[name])
                changed.append(name)
        for name in sorted(earlier - manifests.files.keys()):
            (folder / name).unlink(missing_ok=True)
            changed.append(name)
    except OSError as error:
        raise OperationError(
            f"{error.filename or folder} cannot be written: {error.strerror}. Make it writable and"
            " run it again"
        ) from error
    return changed


def _written_before(folder: Path) -> set[str]:
    """The files that the kustomization of an earlier run lists."""
    path = folder / KUSTOMIZATION
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if path.is_file() and not text.startswith(MARK):
        raise RequestError(
            f"{short_path(path)} was not written by render. Name another folder, or move it away"
        )
    return {
        line[2:].strip() for line in text.splitlines() if line.startswith("- ") and "/" not in line
    }
