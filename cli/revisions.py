"""Revisions of the project's repository, checked out beside the working tree. It changes no branch and no file of the tree."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cli.errors import CommandError


def commit_of(root: Path, revision: str) -> str:
    """The full commit that `revision` names. Raises CommandError where there is none."""
    found = None if revision.startswith("-") else git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found is None or found.returncode:
        raise CommandError(f"{revision!r} is no revision of {root}; give a commit, branch or tag that `git log` knows")
    return found.stdout.decode().strip()


def check_out(root: Path, commit: str, place: Path) -> None:
    """Puts the files of `commit` into the new folder `place`. Raises CommandError where git cannot."""
    made = git(root, "worktree", "add", "--quiet", "--detach", str(place), commit)
    if made.returncode:
        said = made.stderr.decode(errors="replace").strip()
        raise CommandError(f"{commit[:12]} cannot be checked out: {said}", exit_code=1)


def remove(root: Path, place: Path) -> None:
    """Takes a checkout away again, and git's note of it."""
    git(root, "worktree", "remove", "--force", str(place))


@contextlib.contextmanager
def checked_out(root: Path, commit: str) -> Iterator[Path]:
    """The files of `commit` in a folder that is gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix="inferplan-"))
    place = folder / commit[:12]
    try:
        check_out(root, commit, place)
        yield place
    finally:
        remove(root, place)
        shutil.rmtree(folder, ignore_errors=True)


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What git says of the repository in `root`; its exit code is the caller's to judge."""
    line = ["git", "-C", str(root), *arguments]
    return subprocess.run(line, capture_output=True, check=False)
