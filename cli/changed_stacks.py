"""`inferplan changed-stacks BASE HEAD`: which stacks a change can touch, as a JSON list for a workflow's matrix.

It errs on the side of too many: whatever is neither a stack's own file nor plainly without effect touches every stack.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Annotated

import typer

# What no program run reads.
_WITHOUT_EFFECT = re.compile(r"^(docs/|tests/|benchmarks/|\.github/|\.ci/|[^/]*\.md$|LICENSE|\.gitignore$|Makefile$)")
_NO_COMMIT = re.compile(r"^0*$")


def command(
    base: Annotated[str, typer.Argument(help="The commit before the change.")] = "",
    head: Annotated[str, typer.Argument(help="The commit after it.")] = "HEAD",
    every: Annotated[bool, typer.Option("--all", help="List every stack, whatever changed.")] = False,
    real: Annotated[bool, typer.Option("--real", help="Leave out stacks of the simulated cluster.")] = False,
) -> None:
    """Print the names of the stacks that the change from BASE to HEAD can touch, as JSON."""
    from cli.errors import CommandError
    from cli.project import project_root, stack_files

    root = project_root()
    files = stack_files(root)
    if not every and not base:
        raise CommandError("BASE is missing; give the commit before the change, or --all")
    names = (
        list(files) if every else touched(_changed_files(root, base, head), {name: _relative(path, root) for name, path in files.items()})
    )
    typer.echo(json.dumps([name for name in names if not (real and _is_simulated(files[name]))]))


def touched(changed: list[str] | None, stacks: dict[str, str]) -> list[str]:
    """The stacks that changes of the files `changed` can touch; `stacks` are files by name, None means that nothing is known."""
    if changed is None:
        return list(stacks)
    effective = [path for path in changed if not _WITHOUT_EFFECT.match(path)]
    own = {path: name for name, path in stacks.items()} | {f"policies/stacks/{name}.json": name for name in stacks}
    folders = {path.rpartition("/")[0] for path in stacks.values()}
    # The file of a stack that is gone touches none of those that are left.
    others = [path for path in effective if path not in own and path.rpartition("/")[0] not in folders]
    return list(stacks) if others else [name for name in stacks if any(own.get(path) == name for path in effective)]


def touched_between(root: Path, base: str, head: str) -> dict[str, str]:
    """The stacks that the change from `base` to `head` can touch, each "changed", "new" or "deleted"; read off git alone.

    Raises CommandError where git cannot compare the two.
    """
    from cli.errors import CommandError

    changed = _changed_files(root, base, head)
    if changed is None:
        raise CommandError(f"git cannot compare {base[:12]} with {head[:12]}; fetch both commits first")
    before, after = (_stacks_at(root, revision) for revision in (base, head))
    names = {name: "changed" if name in before else "new" for name in touched(changed, after)}
    return names | {name: "deleted" for name in before if name not in after}


def _stacks_at(root: Path, revision: str) -> dict[str, str]:
    """The stack files of `revision` by the names of their stacks."""
    from cli.project import stack_name
    from stackfile.reader import stack_path

    folder = _relative(stack_path(root, "any").parent, root)
    line = ["git", "-C", str(root), "ls-tree", "--name-only", "-z", revision, "--", f"{folder}/"]
    listed = subprocess.run(line, capture_output=True, check=False).stdout.decode(errors="replace").split("\0")
    return {stack_name(Path(each)): each for each in listed if re.fullmatch(r"Pulumi\..+\.yaml", each.rpartition("/")[2])}


def _changed_files(root: Path, base: str, head: str) -> list[str] | None:
    from cli.errors import CommandError

    if _NO_COMMIT.match(base):
        return None
    for commit in (base, head):
        if commit.startswith("-"):
            raise CommandError(f"{commit!r} is no commit; give a commit or a branch")
    listed = subprocess.run(
        ["git", "-C", str(root), "diff", "--name-only", "--no-renames", "-z", base, head, "--"],  # noqa: S607 - git is found on the PATH, as everywhere
        capture_output=True,
        check=False,
    )
    # A base that is not here any more (a forced push, a shallow clone) says nothing about what changed.
    return None if listed.returncode else [path for path in listed.stdout.decode(errors="replace").split("\0") if path]


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _is_simulated(path: Path) -> bool:
    from stackfile.reader import read_stack

    try:
        return json.loads(read_stack(path).config.get("inferplan:cluster", "{}")).get("provider") == "simulated"
    except (ValueError, AttributeError):
        return False
