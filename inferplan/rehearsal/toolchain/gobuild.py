"""Run `go build` for one pinned program, report its progress and explain its failures."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from inferplan.documents.files import cache_directory
from inferplan.errors import DiskFullError, RehearsalError, ToolchainError
from inferplan.rehearsal.toolchain.go import Go
from inferplan.rehearsal.toolchain.pins import Source

_REPORT_SECONDS = 5.0
_TAIL_LINES = 8
_PACKAGE = re.compile(r"^[\w.~-]+(/[\w.~-]+)*$")
_NETWORK = re.compile(
    r"dial tcp|no such host|connection refused|i/o timeout|network is unreachable|TLS"
    r" handshake|40[0-9] |50[0-9] |lookup disabled|GOPROXY=off"
)
# Temporary failures of a module proxy; go requests each of hundreds of modules once.
_PASSING = re.compile(
    r"i/o timeout|TLS handshake timeout|connection reset|connection timed out|unexpected EOF|stream"
    r" error|: 50[0-9] "
)
_TRIES = 4
_PAUSE_SECONDS = 5.0


def build_program(
    source: Source, package: str, output: Path, go: Go, waiting: Callable[[str], None]
) -> None:
    """Build `package` of `source` into `output`, again after a temporary failure. Raises
    ToolchainError, DiskFullError.
    """
    tries = 0
    while (tail := _run(source, package, output, go, waiting)) is not None:
        tries += 1
        if tries == _TRIES or not _PASSING.search("\n".join(tail)):
            raise build_fault(f"building {output.name} {source.version} failed", tail, output, go)
        waiting(f"the Go module proxy, which failed: {_without_password(tail[-1])}")
        time.sleep(_PAUSE_SECONDS * tries)


def _run(
    source: Source, package: str, output: Path, go: Go, waiting: Callable[[str], None]
) -> tuple[str, ...] | None:
    """Run `go build`. Returns None on success, else its last lines."""
    arguments = [
        str(go.program),
        "build",
        "-v",
        *source.build_arguments(),
        "-o",
        str(output),
        package,
    ]
    process = subprocess.Popen(
        arguments,
        cwd=source.directory,
        env=go.environment | {"PWD": str(source.directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        tail = _follow(process, waiting)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return tail if process.wait() != 0 else None


def _follow(process: subprocess.Popen[str], waiting: Callable[[str], None]) -> tuple[str, ...]:
    """Read the compiler's stderr: `-v` prints each package that it compiles and each module that it
    downloads.
    """
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    compiled = downloaded = 0
    reported = time.monotonic()
    assert process.stderr is not None  # noqa: S101 - it was opened as a pipe in this module
    for raw in process.stderr:
        line = raw.rstrip()
        if line.startswith("go: downloading "):
            downloaded += 1
            doing = f"{downloaded} modules fetched so far"
        elif _PACKAGE.match(line):
            compiled += 1
            doing = f"the compiler, {compiled} packages so far"
        else:
            tail.append(line)
            continue
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            waiting(doing)
    return tuple(tail)


def build_fault(what: str, tail: tuple[str, ...], where: Path, go: Go) -> RehearsalError:
    text = "\n".join(tail)
    if "no space left on device" in text or "disk quota exceeded" in text:
        cache = go.environment.get("GOCACHE") or "the Go build cache (go env GOCACHE)"
        return DiskFullError(
            f"{what}: no space left on the disk that holds {where.parent} or {cache}",
            "free some space and run the same command again",
        )
    if "checksum mismatch" in text or "SECURITY ERROR" in text:
        return ToolchainError(
            f"{what}: a downloaded module is not the one that was pinned",
            "stop; run `go clean -modcache` and try again",
            log_tail=tail,
        )
    if _NETWORK.search(text):
        proxy = os.environ.get("GOPROXY") or "Go's default"
        return ToolchainError(
            f"{what}: a pinned Go module could not be fetched (GOPROXY:"
            f" {_without_password(proxy)})",
            "make the Go module proxy reachable once, or set GOPROXY to one that is; finished parts"
            " are kept",
            log_tail=tail,
        )
    return ToolchainError(
        what,
        "read the compiler's output below; finished parts are kept and a new run resumes there",
        log_tail=tail,
    )


def _without_password(proxy: str) -> str:
    return re.sub(r"//[^/@\s]+@", "//***@", proxy)


def module_directory(source: Source, go: Go, module: str = "") -> Path:
    """The directory of `module`, or of `source.module`, in the module cache, downloaded if it is
    missing. Raises ToolchainError.
    """
    module = module or source.module
    return Path(
        download(module, source.directory, go, f"finding {module} in the Go module cache failed")[
            "Dir"
        ]
    )


def download(module: str, directory: Path, go: Go, failed: str) -> dict[str, str]:
    """The answer of `go mod download` in `directory`, with `Dir` and `Sum`. Raises ToolchainError
    that begins with `failed`.
    """
    arguments = [str(go.program), "mod", "download", "-json", module]
    process = subprocess.run(
        arguments, cwd=directory, env=go.environment, capture_output=True, text=True, check=False
    )
    try:
        answer = json.loads(process.stdout)
    except ValueError:
        answer = {}
    if process.returncode or "Error" in answer or "Dir" not in answer:
        words = str(answer.get("Error") or process.stderr).strip().splitlines()[-_TAIL_LINES:]
        raise build_fault(failed, tuple(words), cache_directory() / "toolchain", go)
    return answer


def with_edits(source: Source, home: Path, go: Go) -> Source:
    """`source` with its edits made, in a copy of its module below `home`; `source` itself if it has
    none. Raises ToolchainError.
    """
    if not source.edits:
        return source
    module, copy = module_directory(source, go), home / source.name / "module"
    for path in module.rglob("*"):
        if path.is_file():
            (copy / path.relative_to(module)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(
                path, copy / path.relative_to(module)
            )  # the module cache is read-only, the copy must not be
    for name, before, after in source.edits:
        text = (copy / name).read_text(encoding="utf-8")
        if text.count(before) != 1:
            problem = (
                f"{source.module} {source.version} has {before!r} {text.count(before)} times in"
                f" {name}, expected once"
            )
            raise ToolchainError(
                problem, f"update the edits of {source.name} to the pinned version"
            )
        (copy / name).write_text(text.replace(before, after), encoding="utf-8")
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(source.directory / name, copy.parent / name)
    with (copy.parent / "go.mod").open("a", encoding="utf-8") as stream:
        stream.write(f"\nreplace {source.module} => ./module\n")
    return dataclasses.replace(source, home=home)
