"""The wheel of this checkout, and environments that have it but not the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The environment of the checkout must not show through.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
}


def release(folder: Path, root: Path = ROOT) -> dict[str, bytes]:
    """The files of a release of `root`, by name, built as `make release` builds them."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(
        command,
        cwd=root,
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1795392000"},
    )
    return files_of(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of the release in `folder`, by name."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.suffix in (".whl", ".gz")
    }


def fresh_environment(folder: Path, wheel: Path) -> Path:
    """The `bin` folder of a new environment in `folder` with `wheel`. Other packages are the locked
    ones that are installed here.
    """
    uv = [sys.executable, "-m", "uv", "--quiet", "--offline"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [*uv, "pip", "install", "--python", str(python), "--no-deps", str(wheel)], check=True
    )
    [packages] = folder.glob("lib/python*/site-packages")
    # The editable installation of the checkout is a .pth file, which counts in an environment's own
    # folder only.
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python.parent


def environment_with(folder: Path, extra: str) -> Path:
    """The Python of a new environment with the wheel, `extra` and what they require, and no other
    package.
    """
    uv, python = [sys.executable, "-m", "uv", "--quiet"], folder / "environment" / "bin" / "python"
    [wheel] = (folder / name for name in release(folder) if name.endswith(".whl"))
    subprocess.run(
        [*uv, "venv", "--python", sys.executable, str(folder / "environment")],
        check=True,
        env=CLEAN,
    )
    subprocess.run(
        [*uv, "pip", "install", "--python", str(python), f"{wheel}[{extra}]"], check=True, env=CLEAN
    )
    return python
