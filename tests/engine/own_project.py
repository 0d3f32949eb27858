"""A project beside this one with stacks of its own: the examples' keys are public, so no `up` on a
real cluster takes them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from inferplan.planning.new_stack import copy_of
from inferplan.stackfile.reader import read_stack
from inferplan.workspace.files import create
from tests.examples import example_stacks

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "inferplan/infra",
    "pyproject.toml",
    "Pulumi.yaml",
    "requirements.lock",
    "schemas",
    ".venv",
    "uv.lock",
)
"""`uv.lock` may not be there yet: uv, which the engine calls, writes it where the link leads."""
# A real cluster takes no values of the examples.
_OWN = {
    "111122223333": "210987654321",
    "0123456789abcdef0": "fedcba98765432100",
    "198.51.100.": "51.15.20.",
    "acme-": "ours-",
    ".example": ".internal",
}


def own_project(directory: Path) -> Path:
    """The program in `directory`, as links, with the examples and the policy settings of this
    project as files.
    """
    project = directory / "project"
    project.mkdir()
    for name in PARTS:
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).symlink_to(ROOT / name)
    (project / "stacks").mkdir()
    for path in example_stacks(ROOT).values():
        text = path.read_text()
        for placeholder, value in _OWN.items():
            text = text.replace(placeholder, value)
        (project / "stacks" / path.name).write_text(text)
    shutil.copytree(ROOT / "policies" / "stacks", project / "policies" / "stacks")
    return project


def reseal(project: Path, stack: str, passphrase: str) -> None:
    """Gives the example `stack` of `project` a seed of its own under `passphrase`, and keeps its
    name.
    """
    path = project / "stacks" / f"Pulumi.{stack}.yaml"
    copy = copy_of(read_stack(path), path, passphrase)
    path.unlink()
    create(path, copy.content, sound=copy.reads_back)
