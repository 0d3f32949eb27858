"""Sets a fresh machine up: virtual environment, locked packages, and what tests need from Debian. Standard library only.

It is quick and silent when nothing changed, and never continues half-installed: each step that fails says what to do.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / ".inferplan-ready"
OLDEST = (3, 11)
# What the tests run for real and PyPI does not carry: command -> Debian package.
DEBIAN = {"nginx": "nginx-light", "rclone": "rclone", "curl": "curl", "chromium": "chromium", "wrk": "wrk"}
# A machine that has just started updates itself, and an index that does not answer at once may do so at the next try.
APT = ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=5"]
PATIENT = {"PIP_RETRIES": "8", "PIP_DEFAULT_TIMEOUT": "60", "UV_HTTP_RETRIES": "8", "UV_HTTP_TIMEOUT": "120"}
# tritonserver's Python backend loads the interpreter as a library: file -> Debian packages.
DEBIAN_LIBRARIES = {"libpython3.*.so.1.0": ["libpython3-dev", "python3-venv"]}


class SetupError(Exception):
    """A step of the set-up failed; the message says what to do."""


def main(arguments: list[str]) -> int:
    """Set up the environment; with `--tests` also the programs that tests run. Returns the exit code."""
    try:
        if sys.version_info < OLDEST:
            version, oldest = sys.version.split()[0], ".".join(map(str, OLDEST))
            raise SetupError(f"Python {version} is too old, {oldest} or newer is needed; run make PYTHON=/path/to/python3.12")
        _environment()
        if "--tests" in arguments:
            _debian()
    except SetupError as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"set-up failed: {error.filename or ROOT}: {error.strerror}; fix that, then run it again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up interrupted; run the same command to continue", file=sys.stderr)
        return 130
    return 0


def _environment() -> None:
    wanted = _fingerprint()
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return
    with _step("virtual environment"):
        _make_venv()
    with _step("uv, by its hash in requirements.lock"):
        _install_uv()
    uv = [str(BIN / "uv"), "--quiet"]
    target = ["--python", str(BIN / "python")]
    with _step("packages of requirements.lock, by their hashes"):
        # Many containers set PYTHONDONTWRITEBYTECODE; without bytecode on disk a plan takes twice as long.
        sync = [*uv, "pip", "sync", *target, "--compile-bytecode", "--require-hashes", str(LOCK)]
        _run(sync, "check the network and the package index, then run it again")
    with _step("inferplan itself, editable"):
        _run([*uv, "pip", "install", *target, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], "read the lines above")
        _name_root_in_ascii()
    import tomllib  # here, so that an older Python gets the message about its age

    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    _run([str(BIN / "python"), "-m", "compileall", "-q", *(str(ROOT / package) for package in packages)], "read the lines above")
    STAMP.write_text(wanted)


def _name_root_in_ascii() -> None:
    """Name a checkout with other letters than ASCII by code: Python reads a .pth file in the locale's encoding and fails at start."""
    folder = os.fsencode(ROOT)
    if not folder.isascii():
        for path in VENV.glob("lib/python*/site-packages/_inferplan.pth"):
            path.write_text(f"import os, sys; sys.path.append(os.fsdecode({folder!r}))\n", encoding="ascii")


def _fingerprint() -> str:
    parts = [LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes(), sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\x00".join(parts)).hexdigest()


def _make_venv() -> None:
    if (BIN / "python").exists() and subprocess.run([BIN / "python", "-c", "import sys"], check=False, capture_output=True).returncode == 0:
        return
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    if subprocess.run(command, check=False, capture_output=True).returncode == 0:
        return
    # Debian splits venv off its python3.
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    _apt_install([package], f"install {package}, then run it again")
    _run(command, f"install {package}, then run it again")


def _install_uv() -> None:
    stanza = re.search(r"^uv==.*?(?=^\S|\Z)", LOCK.read_text(), re.MULTILINE | re.DOTALL)
    if stanza is None:
        raise SetupError("requirements.lock does not list uv. Write it again with: make lock")
    if not (BIN / "pip").exists():
        _run([str(BIN / "python"), "-m", "ensurepip", "--upgrade"], "delete .venv, then run it again")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
        pinned.write(re.sub(r"^\s+#.*$", "", stanza[0], flags=re.MULTILINE))
        pinned.flush()
        install = [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        _run([*install, "-r", pinned.name], "check the network and the package index, then run it again")


def _debian() -> None:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = {command: [package] for command, package in DEBIAN.items() if shutil.which(command, path=path) is None}
    missing |= {library: packages for library, packages in DEBIAN_LIBRARIES.items() if not list(Path("/usr/lib").glob(f"*/{library}"))}
    if not missing:
        return
    names = ", ".join(missing)
    wanted = [package for packages in missing.values() for package in packages]
    try:
        with _step(f"{names}, from Debian"):
            _apt_install(wanted, f"install {' '.join(wanted)}")
    except SetupError as error:
        print(f"  going on without {names}: {error}; the tests that run them are skipped and say so", file=sys.stderr)


def _apt_install(packages: list[str], remedy: str) -> None:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise SetupError(f"needs root and apt-get; {remedy}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ([apt, "update", *APT, "-qq"], [apt, "install", *APT, "-qq", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        # One source of several that does not answer fails the update, and need not be the one that has the packages.
        if done.returncode and command[1] == "install":
            raise SetupError(f"{' '.join(command[:2])} failed ({(done.stderr.strip().splitlines() or ['no message'])[-1]}); {remedy}")


def _run(command: list[str], remedy: str) -> None:
    if subprocess.run(command, check=False, env={**PATIENT, **os.environ}).returncode:
        raise SetupError(f"{' '.join(command[:4])} ... did not succeed; {remedy}")


@contextmanager
def _step(name: str) -> Iterator[None]:
    start = time.monotonic()
    print(f"  {name} ...", flush=True)
    yield
    print(f"  {name}: done in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
