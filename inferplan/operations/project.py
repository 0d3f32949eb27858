"""The project's folder, its stack files, and the environment of the programs that operations start."""

import os
import re
from pathlib import Path

from inferplan.operations.errors import RequestError
from inferplan.stackfile.errors import unknown
from inferplan.stackfile.reader import read_stack, stack_path

_SUFFIXES = (".yaml", ".yml")
# The settings next to the project's policy pack. A checkout of inferplan has the pack in the package, and a link at the top.
SETTINGS_FOLDERS = ("inferplan/policies/stacks", "policies/stacks")
_MAIN = re.compile(r"^main:\s*['\"]?([^\s'\"#]+)", re.MULTILINE)
# Variables that name a path, which a user writes relative to the current folder.
_PATHS = ("INFERPLAN_CACHE_DIR", "INFERPLAN_KUBECONFIG", "INFERPLAN_STATE_DIR", "PULUMI_CONFIG_PASSPHRASE_FILE")


def project_root() -> Path:
    """The folder of the nearest Pulumi.yaml upwards. Raises RequestError if there is none, or if its program is missing."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / "Pulumi.yaml").is_file()), None)
    if root is None:
        raise RequestError(f"There is no Pulumi.yaml in {here} or above it. Change into the folder of your project")
    program = program_folder(root)
    if not program.is_dir():
        raise RequestError(f"{root / 'Pulumi.yaml'}: the program {program} does not exist. Write `main:` with the folder of the program")
    return root


def program_folder(root: Path) -> Path:
    """The folder of the program, which Pulumi.yaml names as `main`; the project's own folder if it names none."""
    match = _MAIN.search((root / "Pulumi.yaml").read_text(encoding="utf-8", errors="replace"))
    return root / (match[1] if match else ".")


def stack_files(root: Path) -> dict[str, Path]:
    return {stack_name(path): path for path in sorted(stack_path(root, "any").parent.glob("Pulumi.?*.yaml"))}


def entries(root: Path, section: str, stack: str | None) -> list[str]:
    """The names in `section` of the file of `stack`, of all files for None, as they are written."""
    files = [path for name, path in stack_files(root).items() if stack in (None, name)]
    return sorted({name for path in files for name in read_stack(path).written_keys(section)})


def stack_file(root: Path, stack: str) -> Path:
    """The file of `stack`, which is a name or the path of a YAML file. Raises RequestError that lists the stacks."""
    files = stack_files(root)
    if stack in files:
        return files[stack]
    if stack.endswith(_SUFFIXES) or os.sep in stack:
        return Path(stack)
    raise RequestError(unknown("stack", stack, files, owner="this project", remedy="Write stacks/Pulumi.<name>.yaml."))


def stack_name(path: Path) -> str:
    return path.name.removesuffix(path.suffix).removeprefix("Pulumi.")


def short_path(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def child_environment(**changes: str) -> dict[str, str]:
    """The environment for a program that runs in another folder: paths are absolute, `changes` are added."""
    paths = {name: str(Path(value).absolute()) for name in _PATHS if (value := os.environ.get(name))}
    return {**os.environ, **paths, **changes}
