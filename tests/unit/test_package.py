"""One import package: the wheel, the editable installation and the checkout have the same files."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import inferplan

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_has_the_files_of_the_checkout_and_one_top_level_name(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("inferplan-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        texts = {name: archive.read(name) for name in names if name.endswith((".py", ".toml"))}
    listed = subprocess.run(["git", "ls-files", "-z", "inferplan"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607 - git is how the files came here
    # The settings of this repository's own stacks are data of the project.
    tracked = {name for name in listed.split("\0") if name and not name.startswith("inferplan/policies/stacks/")}
    assert {name.partition("/")[0] for name in names} == {"inferplan", f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"}
    assert {name for name in names if name.startswith("inferplan/")} == tracked
    assert all(text == (ROOT / name).read_bytes() for name, text in texts.items() if name in tracked)


def test_the_editable_installation_is_the_checkout():
    assert Path(inferplan.__file__).parent == ROOT / "inferplan"
