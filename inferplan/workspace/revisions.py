"""Revisions of the project's repository: their commits, checkouts, and the stacks that a change
between two of them can touch.
"""

import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import yaml

from inferplan.errors import OperationError, RequestError
from inferplan.stackfile.reader import read_stack, stack_path
from inferplan.workspace.project import SETTINGS_FOLDERS, stack_files, stack_name

# Files that no run of the program reads.
_WITHOUT_EFFECT = re.compile(
    r"^(docs/|tests/|benchmarks/|\.github/|\.ci/|[^/]*\.md$|LICENSE|\.gitignore$|Makefile$)"
)
# Attributes by which git would run a program, or write other content than it stores.
_STORED = "* -filter -text -eol -ident -working-tree-encoding -export-ignore -export-subst\n"
# A stranger's .git/config names programs that git would run for these questions.
_NO_PROGRAMS = [
    part
    for setting in (
        *(
            "core.fsmonitor=false",
            "core.hooksPath=/dev/null",
            "core.pager=cat",
            "core.sshCommand=false",
        ),
        *(
            "core.alternateRefsCommand=",
            "diff.external=",
            "protocol.allow=never",
            "credential.helper=",
        ),
    )
    for part in ("-c", setting)
]
_LARGEST_FILE = 1 << 20
_NO_COMMIT = re.compile(r"^0*$")


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """git in `root`. Raises OperationError if it is not installed."""
    line = ["git", *_NO_PROGRAMS, "-C", str(root), *arguments]
    try:
        return subprocess.run(line, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise OperationError(
            "git is not on PATH, and only git reads revisions. Install it."
        ) from error


def git_list(root: Path, *arguments: str) -> list[str] | None:
    """The names that git prints with -z, None if it fails."""
    listing = git(root, *arguments)
    return (
        None
        if listing.returncode
        else [each for each in listing.stdout.decode(errors="replace").split("\0") if each]
    )


def commit_of(root: Path, revision: str) -> str:
    commit = (
        None
        if revision.startswith("-")
        else git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    )
    if commit is None or commit.returncode:
        raise RequestError(
            f"{revision!r} is not a revision of {root}. Give a commit, branch or tag that `git log`"
            " accepts"
        )
    return commit.stdout.decode().strip()


def archive(root: Path, commit: str, path: str) -> bytes:
    """The tar of `path` (`.` for everything) at `commit`, as git stores it: an empty repository
    reads the objects, without filters of `root`.

    Raises RequestError with git's words if there is no such path.
    """
    objects, format_ = git(
        root, "rev-parse", "--path-format=absolute", "--git-path", "objects", "--show-object-format"
    ).stdout.splitlines()
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
        empty = ("--git-dir", folder, "--literal-pathspecs")
        git(
            root,
            *empty,
            "init",
            "--quiet",
            "--bare",
            "--template=",
            f"--object-format={format_.decode()}",
        )
        for name, content in (
            ("objects/info/alternates", objects + b"\n"),
            ("info/attributes", _STORED.encode()),
        ):
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).write_bytes(content)
        content = git(
            root, *empty, "archive", "--format=tar", commit, "--", *([] if path == "." else [path])
        )
    if content.returncode:
        raise RequestError(content.stderr.decode(errors="replace").strip())
    return content.stdout


@contextlib.contextmanager
def stack_data(root: Path, commit: str, program: Path) -> Iterator[Path]:
    """A folder with the project's name and its stack files at `commit`, for `program` to render;
    removed after the block. Links, folders and other files stay out.

    Raises RequestError if there is no project, or if its stack files are elsewhere.
    """
    project = yaml.safe_load(_blob(root, commit, "Pulumi.yaml")) or {}
    folder = PurePosixPath(str(project.get("stackConfigDir") or "."))
    if folder.is_absolute() or ".." in folder.parts:
        raise RequestError(
            f"Pulumi.yaml of {commit[:12]}: stackConfigDir {str(folder)!r} leads out of the project."
            " Name a folder in it"
        )
    with tempfile.TemporaryDirectory(prefix="inferplan-") as name:
        place = Path(name)
        settings = {"name": str(project.get("name") or root.name), "runtime": "python"}
        settings |= {"main": str(program), "stackConfigDir": "stacks"}
        (place / "Pulumi.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        (place / "stacks").mkdir()
        for entry in git_list(root, "ls-tree", "-z", commit, "--", f"{folder}/") or ():
            kind, path = entry.split("\t", 1)
            if kind.startswith("100") and re.fullmatch(r"Pulumi\.[^/]+\.yaml", Path(path).name):
                (place / "stacks" / Path(path).name).write_bytes(_blob(root, commit, path))
        yield place


def _blob(root: Path, commit: str, path: str) -> bytes:
    """A file at `commit` as git stores it. Raises RequestError."""
    size = git(root, "cat-file", "-s", f"{commit}:./{path}").stdout.strip()
    if not size or int(size) > _LARGEST_FILE:
        raise RequestError(
            f"{path} of {commit[:12]} is missing or larger than {_LARGEST_FILE >> 20} MiB. Compare"
            " with another revision"
        )
    return git(root, "cat-file", "blob", f"{commit}:./{path}").stdout


def text_at(root: Path, commit: str, path: Path) -> str:
    """The text of a file at `commit`, "" if it was not there."""
    shown = git(root, "show", f"{commit}:./{path.relative_to(root).as_posix()}")
    return "" if shown.returncode else shown.stdout.decode(errors="replace")


@contextlib.contextmanager
def checked_out(root: Path, commit: str) -> Iterator[Path]:
    """A folder with the files of `commit`, removed after the block. Raises OperationError if git
    cannot check them out.
    """
    with tempfile.TemporaryDirectory(prefix="inferplan-", ignore_cleanup_errors=True) as folder:
        place = Path(folder, commit[:12])
        try:
            worktree = git(root, "worktree", "add", "--quiet", "--detach", str(place), commit)
            if worktree.returncode:
                raise OperationError(
                    f"{commit[:12]} cannot be checked out:"
                    f" {worktree.stderr.decode(errors='replace').strip()}"
                )
            yield place
        finally:
            git(root, "worktree", "remove", "--force", str(place))


def changed_stacks(
    root: Path, base: str, head: str, *, every: bool = False, real: bool = False
) -> list[str]:
    """The stacks that a change can touch, `every` one regardless, or only `real` ones. A file of no
    stack touches every stack.
    """
    files = stack_files(root)
    paths = {name: path.relative_to(root).as_posix() for name, path in files.items()}
    names = list(files) if every else touched(_changed_files(root, base, head), paths)
    return [name for name in names if not (real and _is_simulated(files[name]))]


def touched(changed: list[str] | None, stacks: dict[str, str]) -> list[str]:
    """The stacks that changes of the files `changed` can touch, all if that is None; `stacks` are
    files by name.
    """
    if changed is None:
        return list(stacks)
    effective = [path for path in changed if not _WITHOUT_EFFECT.match(path)]
    own = {path: name for name, path in stacks.items()} | {
        f"{folder}/{name}.json": name for name in stacks for folder in SETTINGS_FOLDERS
    }
    folders = {path.rpartition("/")[0] for path in stacks.values()}
    # The file of a deleted stack does not touch the other stacks.
    others = [
        path for path in effective if path not in own and path.rpartition("/")[0] not in folders
    ]
    return (
        list(stacks)
        if others
        else [name for name in stacks if any(own.get(path) == name for path in effective)]
    )


def touched_between(root: Path, base: str, head: str) -> dict[str, str]:
    """The stacks that the change can touch, each "changed", "new" or "deleted". Raises
    OperationError if git cannot compare the revisions.
    """
    changed = _changed_files(root, base, head)
    if changed is None:
        raise RequestError(
            f"git cannot compare {base[:12]} with {head[:12]}. Fetch both commits first"
        )
    before, after = (_stacks_at(root, revision) for revision in (base, head))
    names = {name: "changed" if name in before else "new" for name in touched(changed, after)}
    return names | {name: "deleted" for name in before if name not in after}


def _stacks_at(root: Path, revision: str) -> dict[str, str]:
    folder = stack_path(root, "any").parent.relative_to(root).as_posix()
    listing = git_list(root, "ls-tree", "--name-only", "-z", revision, "--", f"{folder}/")
    return {
        stack_name(Path(each)): each
        for each in listing or ()
        if re.fullmatch(r"Pulumi\..+\.yaml", each.rpartition("/")[2])
    }


def _changed_files(root: Path, base: str, head: str) -> list[str] | None:
    if _NO_COMMIT.match(base):
        return None
    for commit in (base, head):
        if commit.startswith("-"):
            raise RequestError(f"{commit!r} is not a commit. Give a commit or a branch")
    # A base that is missing here (a forced push, a shallow clone) says nothing about what changed.
    return git_list(root, "diff", "--name-only", "--no-renames", "-z", base, head, "--")


def _is_simulated(path: Path) -> bool:
    try:
        return (
            json.loads(read_stack(path).config.get("inferplan:cluster", "{}")).get("provider")
            == "simulated"
        )
    except (ValueError, AttributeError):
        return False
