"""What a plan is compared with: a plan that was saved, or the plan of another revision, made by that revision's own code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from operations.errors import CommandError

if TYPE_CHECKING:
    from rehearsal.engine.plan.states import States

_SECONDS = 300


def earlier(against: str, stack: str) -> tuple[States | None, str]:
    """The states that `against` stands for, a file or else a revision, and the file's name or the commit.

    The states are None where that revision has no such stack. Raises CommandError for a file that is no saved plan, an
    unknown revision, and a revision that cannot be planned.
    """
    from operations.project import project_root
    from operations.revisions import commit_of

    path = Path(against)
    if path.exists() or path.suffix == ".json":
        return _saved(path), path.name
    root = project_root()
    commit = commit_of(root, against)
    return _planned(root, commit, stack), commit


def _saved(path: Path) -> States:
    from rehearsal.engine.plan.states import load

    try:
        return load(path.read_bytes())
    except OSError as error:
        raise CommandError(f"--against {path} cannot be read: {error.strerror}; give a file that --save wrote, or a revision") from error
    except ValueError as error:
        raise CommandError(f"--against {path}: {error}") from error


def _planned(root: Path, commit: str, stack: str) -> States | None:
    from operations.project import stack_files
    from operations.revisions import checked_out

    with checked_out(root, commit) as place:
        if stack not in stack_files(place):
            return None
        target = place / "earlier.json"
        line = [sys.executable, "-c", "from cli.main import run; run()", "plan", stack, "--save", str(target)]
        environment = {**os.environ, "PYTHONPATH": str(place)}
        done = subprocess.run(
            line, cwd=place, env=environment, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS
        )
        # A plan that is over its budget is a plan all the same.
        if not target.exists():
            said = " / ".join(done.stderr.strip().splitlines()[-6:]) or f"it ended with code {done.returncode}"
            raise CommandError(f"--against {commit[:12]}: {stack} cannot be planned there: {said}", exit_code=1)
        return _saved(target)
