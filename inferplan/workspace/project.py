"""The project's folder, its stack files, and the environment of the programs that operations start."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferplan.documents.errors import unknown
from inferplan.documents.yaml_tree import LOADER, syntax_errors
from inferplan.errors import RequestError
from inferplan.kube.paths import mapping
from inferplan.pulumi_engine.secrets import PROJECT
from inferplan.stackfile.reader import read_stack, stack_path

PASSPHRASE_FILE = ".passphrase"  # noqa: S105 - the name of a file
"""The file in which `init` keeps the passphrase of a project; git ignores it."""
_SUFFIXES = (".yaml", ".yml")
# The settings next to the project's policy pack. A checkout of inferplan has the pack in the
# package, and a link at the top.
SETTINGS_FOLDERS = ("inferplan/policies/stacks", "policies/stacks")
# Variables that name a path, which a user writes relative to the current folder.
_PATHS = (
    "INFERPLAN_CACHE_DIR",
    "INFERPLAN_KUBECONFIG",
    "INFERPLAN_STATE_DIR",
    "PULUMI_CONFIG_PASSPHRASE_FILE",
)


@dataclass
class Selection:
    """The project that operations act on: the nearest one above `folder`, by default the current
    folder.

    `announce` gets its root when an operation first looks for it, and it is not the current folder.
    """

    folder: Path | None = None
    announce: Callable[[Path], None] | None = None


SELECTION = Selection()


def project_root() -> Path:
    """The folder of the nearest Pulumi.yaml upwards. Raises RequestError if there is none, or if
    its program is missing.
    """
    here = Path.cwd()
    start = here / (SELECTION.folder or "")
    root = next(
        (folder for folder in (start, *start.parents) if (folder / "Pulumi.yaml").is_file()), None
    )
    if root is None:
        remedy = (
            "Change into the folder of your project, or name it with --project. inferplan init DIR"
            " makes a new one"
        )
        raise RequestError(f"There is no Pulumi.yaml in {start} or above it. {remedy}")
    if SELECTION.announce is not None and not root.samefile(here):
        announce, SELECTION.announce = SELECTION.announce, None
        announce(root)
    program = program_folder(root)
    if not program.is_dir():
        raise RequestError(
            f"{root / 'Pulumi.yaml'}: the program {program} does not exist. Write `main:` with the"
            " folder of the program"
        )
    own = root / PASSPHRASE_FILE
    PROJECT.path = own if own.is_file() else None
    return root


def project_name(root: Path) -> str:
    """The name in the project's Pulumi.yaml, which is part of every URN."""
    return str(_project(root).get("name") or root.name)


def program_folder(root: Path) -> Path:
    """The folder of the program, which Pulumi.yaml names as `main`; the project's own folder if it
    names none.
    """
    return root / str(_project(root).get("main") or ".")


def runs_in_own_environment(root: Path) -> bool:
    """True if the virtual environment that Pulumi.yaml names for the program is that of this
    process.
    """
    folder = mapping(_project(root), "runtime", "options").get("virtualenv")
    return isinstance(folder, str) and (root / folder).resolve() == Path(sys.prefix).resolve()


def _project(root: Path) -> dict[str, Any]:
    """The contents of the project's Pulumi.yaml. Raises RequestError with the position if it is not
    a YAML mapping.
    """
    path = root / "Pulumi.yaml"
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        settings = yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        position, message = next(syntax_errors(error, text))
        raise RequestError(f"{path}:{position.line}:{position.column}: {message}") from error
    if not isinstance(settings, dict):
        raise RequestError(
            f"{path}:1:1: A project file is a mapping. Write at least `name:` and `runtime:"
            " python`."
        )
    return settings


def stack_files(root: Path) -> dict[str, Path]:
    return {
        stack_name(path): path
        for path in sorted(stack_path(root, "any").parent.glob("Pulumi.?*.yaml"))
    }


def entries(root: Path, section: str, stack: str | None) -> list[str]:
    """The names in `section` of the file of `stack`, of all files for None, as they are written."""
    files = [path for name, path in stack_files(root).items() if stack in (None, name)]
    return sorted({name for path in files for name in read_stack(path).written_keys(section)})


def stack_file(root: Path, stack: str) -> Path:
    """The file of `stack`, which is a name or the path of a YAML file. Raises RequestError that
    lists the stacks.
    """
    files = stack_files(root)
    if stack in files:
        return files[stack]
    if stack.endswith(_SUFFIXES) or os.sep in stack:
        return Path(stack)
    raise RequestError(
        unknown(
            "stack", stack, files, owner="this project", remedy="Write stacks/Pulumi.<name>.yaml."
        )
    )


def stack_name(path: Path) -> str:
    return path.name.removesuffix(path.suffix).removeprefix("Pulumi.")


def short_path(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def child_environment(**changes: str) -> dict[str, str]:
    """The environment for a program that runs in another folder: paths are absolute, `changes` are
    added.
    """
    paths = {
        name: str(Path(value).absolute()) for name in _PATHS if (value := os.environ.get(name))
    }
    return {**os.environ, **PROJECT.variables(), **paths, **changes}
