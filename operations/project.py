"""The project's folder, its stack files, and the environment of the programs that operations start."""

import os
from pathlib import Path

from operations.errors import RequestError
from stackfile.errors import unknown
from stackfile.reader import stack_path

_SUFFIXES = (".yaml", ".yml")
# Variables that name a path, which a user writes relative to the current folder.
_PATHS = ("INFERPLAN_CACHE_DIR", "INFERPLAN_KUBECONFIG", "INFERPLAN_STATE_DIR", "PULUMI_CONFIG_PASSPHRASE_FILE")


def project_root() -> Path:
    """The folder of the nearest Pulumi.yaml upwards, else the checkout of this command. Raises RequestError if there is none."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parent.parent):
        if (folder / "Pulumi.yaml").is_file() and (folder / "infra").is_dir():
            return folder
    raise RequestError(f"There is no inferplan project in {here} or above it. Change into the folder that contains Pulumi.yaml")


def stack_files(root: Path) -> dict[str, Path]:
    return {stack_name(path): path for path in sorted(stack_path(root, "any").parent.glob("Pulumi.?*.yaml"))}


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
