"""The step of a recipe that installs packages, run with its lock file for the Python of its base."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[3] / "inferplan" / "images"
BASE_PYTHON = "3.12"


def install(lock: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--require-hashes"]
    base = ["--python-version", BASE_PYTHON, "--python-platform", "x86_64-manylinux_2_35"]
    where = ["--target", str(into), "--cache-dir", str(into.parent / "cache"), "-r", str(lock)]
    return subprocess.run(
        [*command, *base, "--only-binary", ":all:", *where],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_recipe_installs_what_its_lock_names_and_nothing_with_another_hash(tmp_path):
    recipe = IMAGES / "ray-app"
    assert "py312" in (recipe / "Dockerfile").read_text()
    lock = (recipe / "requirements.lock").read_text()
    pinned = set(re.findall(r"^([a-z0-9._-]+)==([^ \\]+)", lock, re.MULTILINE))
    done = install(recipe / "requirements.lock", tmp_path / "packages")
    assert done.returncode == 0, done.stderr
    installed = {
        (match[1].lower().replace("_", "-"), match[2])
        for path in (tmp_path / "packages").glob("*.dist-info")
        if (match := re.fullmatch(r"(.+)-([^-]+)\.dist-info", path.name))
    }
    assert installed == pinned

    other = tmp_path / "other.lock"
    other.write_text(
        re.sub(r"sha256:[0-9a-f]", lambda match: f"sha256:{_next(match[0][-1])}", lock)
    )
    denied = install(other, tmp_path / "none")
    assert denied.returncode != 0
    assert "Hash mismatch" in denied.stderr


def _next(digit: str) -> str:
    return f"{(int(digit, 16) + 1) % 16:x}"
