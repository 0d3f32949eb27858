"""The mounts of a trial's container: directories, and the files that links in them lead to."""

import os
from collections.abc import Sequence
from pathlib import Path

from inferplan.errors import RequestError

# These separate and quote the fields of a mount.
_FORBIDDEN = frozenset(',"\n')


def read_only_mounts(directories: Sequence[Path]) -> list[str]:
    """The options that mount the `directories`, whose paths are resolved, and each file outside them
    that a link names, at the path that the link spells. Raises RequestError for other links.
    """
    sources = {each: each for each in directories}
    for top in directories:
        for path in top.rglob("*"):
            if path.is_symlink() and path.exists():
                target = Path(os.path.normpath(path.parent / path.readlink()))
                _check(path, target, top, directories)
                if not _is_below(target, directories):
                    sources[target] = path.resolve()
    return [_mount(source, target) for target, source in sorted(sources.items())]


def _is_below(path: Path, directories: Sequence[Path]) -> bool:
    return any(path.is_relative_to(each) for each in directories)


def _check(link: Path, target: Path, top: Path, directories: Sequence[Path]) -> None:
    """Raise RequestError for a `link` in `top` whose `target` a container cannot have: a directory
    would show more than the model's files.
    """
    end = link.resolve()
    if target.resolve() != end:
        raise RequestError(
            f"--weights: the link {link} has `..` after another link. Link to {end} instead"
        )
    if not _is_below(target, directories) and not end.is_file():
        raise RequestError(
            f"--weights: the link {link} leads to {target}, which is outside {top} and not a"
            f" file. Allowed: links to files, and to directories inside {top}. Copy the directory"
            f" into {top}, or link its files"
        )


def _mount(source: Path, target: Path) -> str:
    for path in (source, target):
        if _FORBIDDEN & set(str(path)):
            raise RequestError(
                f"--weights: {str(path)!r} has a comma, a quotation mark or a line break, which no"
                " mount of a container can have. Rename it"
            )
    return f"--mount=type=bind,source={source},target={target},readonly"
