"""What a newcomer reads when the set-up cannot go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "setup.sh"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(SCRIPT, folder)
    environment = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(
        ["./setup.sh"], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )


def test_a_missing_file_is_named_in_one_line(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 1
    expected = (
        f"set-up failed: {tmp_path}/requirements.lock cannot be read; restore it with git checkout,"
        " then run it again\n"
    )
    assert done.stderr == expected


@pytest.mark.parametrize(
    ("python", "text"),
    [
        (
            'case "$2" in *version.split*) echo 3.9.2 ;; *) exit 1 ;; esac',
            "Python 3.9.2 is too old, 3.11 or newer is needed",
        ),
        ("exit 1", "python does not run"),
    ],
)
def test_the_error_of_a_python_says_how_to_name_another(tmp_path, python, text):
    done = run(tmp_path, PYTHON=str(program(tmp_path / "python", python)))
    assert done.returncode == 1
    assert text in done.stderr
    assert "run make PYTHON=/path/to/python3.12" in done.stderr


def test_a_checkout_with_other_letters_than_ascii_is_imported_in_any_locale_and_set_up_once(
    tmp_path,
):
    root = tmp_path / "próba-é"
    packages = root / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (root / "inferplan").mkdir()
    (root / "inferplan" / "__init__.py").touch()
    (root / "requirements.lock").write_text(
        "uv==0.13.8 \\\n    --hash=sha256:00\n    # via project\nwheel==1.0\n"
    )
    (root / "pyproject.toml").touch()
    program(
        root / ".venv" / "bin" / "python",
        'case "$*" in "-m pip"*) exit 0 ;; *) exec python3 "$@" ;; esac',
    )
    program(root / ".venv" / "bin" / "pip", "")
    program(root / ".venv" / "bin" / "uv", "")
    (packages / "_inferplan.pth").write_text(str(root), encoding="utf-8")
    done = run(root)
    assert (done.returncode, done.stderr) == (0, "")
    assert (root / ".venv" / "uv.txt").read_text() == "uv==0.13.8 \\\n    --hash=sha256:00\n"
    text = (
        f"import os, site; site.addsitedir(os.fsdecode({os.fsencode(packages)!r})); import"
        " inferplan; print(ascii(inferplan.__file__))"
    )
    imported = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert "pr\\xf3ba" in imported.stdout or "pr\\udcc3" in imported.stdout, imported.stderr
    assert run(root).stdout == ""


def test_a_package_index_that_does_not_answer_is_named(tmp_path):
    (tmp_path / "requirements.lock").write_text("uv==0.13.8\n")
    (tmp_path / "pyproject.toml").touch()
    program(
        tmp_path / ".venv" / "bin" / "python",
        'case "$*" in "-m pip"*) exit 1 ;; *) exec python3 "$@" ;; esac',
    )
    program(tmp_path / ".venv" / "bin" / "pip", "")
    done = run(tmp_path)
    assert done.returncode == 1
    assert (
        done.stderr == "set-up failed: check the network and the package index, then run it again\n"
    )


def test_nginx_is_installed_for_an_answer_or_the_line_to_type_is_printed(tmp_path):
    """A machine without nginx, whose user is or is not root."""
    tools = tmp_path / "tools"
    for name in ("dirname", "awk", "cksum", "cat", "sh", "env"):
        (tools / name).parent.mkdir(exist_ok=True)
        (tools / name).symlink_to(shutil.which(name) or name)
    script = SCRIPT.read_text()
    begin = script.index("PATH=$PATH:/usr/sbin:/sbin")
    functions = script[script.index("apt_install() {") : script.index("make_venv() {")]
    part = functions + script[begin : script.index('[ "${1:-}" = --tests ]')].replace(
        "PATH=$PATH:/usr/sbin:/sbin", ""
    )
    program(tools / "apt-get", 'echo "$@" >>"$LOG"')
    for user, installs in (("0", True), ("1000", False)):
        program(tools / "id", f"echo {user}")
        log = tmp_path / f"log-{user}"
        done = subprocess.run(
            ["/bin/sh", "-euc", part, "setup", "--nginx"],
            env={"PATH": str(tools), "LOG": str(log)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert (log.exists() and "nginx-light" in log.read_text()) == installs
        assert ("sudo apt-get install nginx-light" in done.stderr) == (not installs)
