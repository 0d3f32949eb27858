"""What a newcomer reads when the set-up cannot go on."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bootstrap.py"


@pytest.fixture
def bootstrap():
    specification = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_it_runs_without_packages_and_names_the_missing_file_in_one_line(tmp_path):
    shutil.copy(SCRIPT, tmp_path)
    done = subprocess.run([sys.executable, "-I", "-S", tmp_path / SCRIPT.name], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"set-up failed: {tmp_path}/requirements.lock: No such file or directory; fix that, then run it again\n"


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "set-up interrupted; run the same command to continue"),
        (OSError(28, "No space left on device", "/venv"), 1, "set-up failed: /venv: No space left on device; fix that, then run it again"),
    ],
)
def test_an_interrupt_and_a_full_disk_end_in_one_line(bootstrap, monkeypatch, capsys, fault, code, told):
    def fail() -> None:
        raise fault

    monkeypatch.setattr(bootstrap, "_environment", fail)
    assert bootstrap.main([]) == code
    assert capsys.readouterr().err == f"{told}\n"


def test_the_error_of_an_old_python_says_how_to_name_another(bootstrap, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "OLDEST", (99, 0))
    assert bootstrap.main([]) == 1
    assert "99.0 or newer is needed; run make PYTHON=/path/to/python3.12" in capsys.readouterr().err


def test_a_checkout_with_other_letters_than_ascii_is_imported_in_any_locale(bootstrap, monkeypatch, tmp_path):
    root = tmp_path / "próba-é"
    packages = root / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (root / "checked_out.py").touch()
    (packages / "_inferplan.pth").write_text(str(root), encoding="utf-8")
    monkeypatch.setattr(bootstrap, "ROOT", root)
    monkeypatch.setattr(bootstrap, "VENV", root / ".venv")
    bootstrap._name_root_in_ascii()
    program = f"import os, site; site.addsitedir(os.fsdecode({os.fsencode(packages)!r})); import checked_out"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    assert (done.returncode, done.stderr) == (0, "")
