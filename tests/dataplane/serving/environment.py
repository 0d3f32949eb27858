"""Builds the environments that real servers run in, apart from the project's own: `python -m
tests.dataplane.serving.environment`.

Each is a virtual environment of hash-locked packages (`environments/<name>.lock`), built once and
kept by the hash of its lock under ~/.cache/inferplan/test-environments (/var/tmp if that lies below
/tmp). Whatever hinders a build is said as `Unavailable`, never guessed around.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LOCKS = Path(__file__).parent / "environments"


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    # A pod's volume covers /tmp, and a server that lies below it would be gone.
    elsewhere = Path("/var/tmp") / f"inferplan-{os.getuid()}"  # noqa: S108 - kept between runs, as a cache is
    return (
        (elsewhere if folder.is_relative_to("/tmp") else folder) / "inferplan" / "test-environments"  # noqa: S108 - the folder that volumes cover
    )


CACHE = _cache()
# How long a build may take in the set-up, and in a test that finds none: less than the test itself
# may.
_BUILD_SECONDS = 1200
IN_A_TEST_SECONDS = 480
_PATIENT = {"UV_HTTP_RETRIES": "8", "UV_HTTP_TIMEOUT": "120"}
_ASK = (
    "import json, sys, sysconfig; v = sysconfig.get_config_var; "
    "print(json.dumps([sys.version, list(sys.version_info[:3]), v('LIBDIR'), v('INSTSONAME')]))"
)
# Asked of the library itself, since a library of another patch level than its standard library
# breaks the server's stub.
_ASK_LIBRARY = (
    "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).Py_GetVersion; f.restype = ctypes.c_char_p;"
    " print(f().decode().split()[0])"
)


class Unavailable(Exception):  # noqa: N818 - a test reads it as a reason to skip, not as an error
    """An environment that this machine cannot have; the message is the reason."""


@dataclass(frozen=True)
class Environment:
    """A built environment: its interpreter and where the interpreter's shared library lies, None
    where none is needed.
    """

    root: Path
    library: Path | None

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.root / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The environment's site-packages."""
        return next((self.root / "lib").glob("python3.*/site-packages"))


@dataclass(frozen=True)
class _Interpreter:
    path: str
    version: str
    release: tuple[int, ...]
    library: Path | None


def environment(name: str, seconds: float = _BUILD_SECONDS) -> Environment:
    """The environment of `environments/<name>.lock`, built now within `seconds` if it is not there.
    Raises Unavailable with the reason.
    """
    lock = LOCKS / f"{name}.lock"
    interpreter = _with_library() if name == "triton" else _described(sys.executable)
    if interpreter is None:
        raise Unavailable(
            "no Python between 3.11 and 3.13 with its shared library is here; apt-get install"
            " libpython3.11 python3.11-venv"
        )
    key = hashlib.sha256(lock.read_bytes() + interpreter.version.encode()).hexdigest()[:24]
    root = CACHE / key
    built = Environment(root, interpreter.library)
    CACHE.mkdir(parents=True, exist_ok=True)
    asked, refused = time.time(), CACHE / f"{key}.refused"
    with (CACHE / f"{key}.building").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if (root / "ready").exists():
            return built
        # What failed for one while others waited for it is not tried again by each of them.
        if refused.exists() and refused.stat().st_mtime > asked:
            raise Unavailable(refused.read_text())
        try:
            _build(interpreter, lock, built, seconds)
        except Unavailable as reason:
            refused.write_text(str(reason))
            raise
    return built


def _build(interpreter: _Interpreter, lock: Path, built: Environment, seconds: float) -> None:
    shutil.rmtree(built.root, ignore_errors=True)
    uv = shutil.which(
        "uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if uv is None:
        raise Unavailable("uv is not installed. Run make setup")
    for command in (
        [
            uv,
            "venv",
            "--quiet",
            "--no-python-downloads",
            "--python",
            interpreter.path,
            str(built.root),
        ],
        [
            uv,
            "pip",
            "sync",
            "--quiet",
            "--python",
            str(built.python),
            "--require-hashes",
            "--only-binary",
            ":all:",
            str(lock),
        ],
    ):
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=seconds,
                env={**_PATIENT, **os.environ},
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"{' '.join(command[:3])} did not finish in {seconds:.0f} s; see whether the"
                " package index answers"
            ) from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise Unavailable(f"{' '.join(command[:3])} failed: {said[-1]}")
    (built.root / "ready").touch()


def _with_library() -> _Interpreter | None:
    """An interpreter whose shared library is of the same patch level, which tritonserver's python
    stub loads.
    """
    return next(
        (
            each
            for each in _candidates()
            if each.library is not None and (3, 11) <= each.release < (3, 14)
        ),
        None,
    )


def _candidates() -> Iterator[_Interpreter]:
    seen = [
        sys.executable,
        *(f"/usr/{local}bin/python3.{minor}" for local in ("", "local/") for minor in (11, 12, 13)),
    ]
    for path in seen:
        found = _described(path) if Path(path).exists() else None
        if found is not None:
            yield found


def _described(path: str) -> _Interpreter | None:
    done = subprocess.run([path, "-I", "-c", _ASK], check=False, capture_output=True, text=True)
    if done.returncode:
        return None
    version, release, directory, soname = json.loads(done.stdout)
    library = Path(directory or "/nowhere") / (soname or "none")
    return _Interpreter(
        path,
        version,
        tuple(release),
        library.parent if _same_release(path, library, release) else None,
    )


def _same_release(path: str, library: Path, release: list[int]) -> bool:
    if ".so" not in library.name or not library.exists():
        return False
    done = subprocess.run(
        [path, "-I", "-c", _ASK_LIBRARY, str(library)], check=False, capture_output=True, text=True
    )
    return done.stdout.strip() == ".".join(map(str, release))


def _main() -> int:
    for lock in sorted(LOCKS.glob("*.lock")):
        try:
            environment(lock.stem)
        except Unavailable as reason:
            print(
                f"  going on without the environment {lock.stem}: {reason}; the tests that need it"
                " are skipped and say so",
                file=sys.stderr,
            )
    return 0


if __name__ == "__main__":
    sys.exit(_main())
