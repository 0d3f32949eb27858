"""Downloads or builds Pulumi's engine for the tests, once: `python -m tests.engine.programs`.

It ends within its time and with exit code 0 in any case: what hinders it is printed, and the tests
that need the engine are skipped.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from inferplan.errors import RehearsalError
from inferplan.progress import Progress, plain
from inferplan.rehearsal.toolchain.build import built_source, ensure_sources
from inferplan.rehearsal.toolchain.pins import OPTIONAL


class Expired(Exception):  # noqa: N818 - a reason to skip tests, not an error
    """The build took too long."""


CLI, YAML, PROVIDER = "pulumi", "pulumi-language-yaml", "pulumi-resource-kubernetes"
SOURCES = tuple(OPTIONAL[name] for name in ("pulumi-yaml", "pulumi-kubernetes", "pulumi"))
# 11 minutes of processor time; a machine may be four times as slow as the one that measured them,
# or its network may hang.
SECONDS = 2700


def built_programs() -> dict[str, Path] | None:
    """The programs and files of the engine by name if all of them are in the cache."""
    directories = [built_source(source) for source in SOURCES]
    if None in directories:
        return None
    return {
        name: directory / name
        for directory in directories
        if directory
        for name in _names(directory)
    }


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.suffix != ".json"]


def build(progress: Progress, seconds: int = SECONDS) -> str:
    """Build what is missing within `seconds`. Returns what hindered it, or ""."""

    def expired(*_: object) -> None:
        raise Expired(f"it was not ready after {seconds} s")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        ensure_sources(SOURCES, progress)
    except (RehearsalError, Expired, OSError) as error:
        return str(error)
    finally:
        signal.alarm(0)
    return ""


def main() -> int:
    if built_programs() is None and (reason := build(plain)):
        print(
            f"  going on without Pulumi's engine: {reason}; the tests that need it are skipped and"
            " say so",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
