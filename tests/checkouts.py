"""A repository with the files of this one as they are now, in which tests may commit what they
like.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_IDENTITY = {
    f"GIT_{who}_{what}": "test@localhost"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],  # noqa: S607 - git is on the PATH
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **_IDENTITY},
    ).stdout.strip()


def copy_files(folder: Path) -> Path:
    """Copies all that a run of the program reads into `folder`, as it is now."""
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    kept = [
        name
        for name in listed
        if name
        and (ROOT / name).is_file()
        and not name.startswith(("tests/", "docs/", "benchmarks/"))
    ]
    for name in kept:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def make_checkout(folder: Path) -> Path:
    """Fills `folder` with all that a run of the program reads, and commits it."""
    copy_files(folder)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Base")
    return folder


def committed(folder: Path, *edits: tuple[str, str], file: str = "stacks/Pulumi.local.yaml") -> str:
    """A commit over the base with `edits` (pattern, replacement) in `file`; the working tree goes
    back to the base.
    """
    path = folder / file
    text = path.read_text()
    for pattern, replacement in edits:
        text, count = re.subn(pattern, replacement, text)
        assert count == 1, pattern
    path.write_text(text)
    git(folder, "commit", "--quiet", "--all", "--message", "Head")
    commit = git(folder, "rev-parse", "HEAD")
    git(folder, "reset", "--quiet", "--hard", "HEAD~1")
    return commit


def small_project(folder: Path) -> Path:
    """A repository in `folder` with the stack files and policy settings of this one; its program
    only marks it as a project.
    """
    for name in ("stacks", "inferplan/policies/stacks"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    (folder / "inferplan" / "infra").mkdir()
    (folder / "inferplan" / "infra" / "code.py").write_text("# code\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "stacks", "inferplan", "Pulumi.yaml")
    git(folder, "commit", "--quiet", "--message", "Base")
    return folder
