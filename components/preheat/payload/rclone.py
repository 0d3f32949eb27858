"""Runs rclone: listing, reading ranges, copying batches. Everything that talks to a store goes through it.

Credentials reach it by environment only; its configuration file is switched off.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .certificates import untrusted
from .errors import Exit, PreheatError, scrubbed
from .patience import Patience

# rclone's own exit codes, from its documentation ("List of exit codes", read 2026-11).
_DIRECTORY_NOT_FOUND, _FILE_NOT_FOUND = 3, 4

# What follows the question mark of a signed address is a credential.
_QUERY = re.compile(r"(https?://[^\s\"'?]+)\?[^\s\"']*")
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_STAMP = re.compile(r"^[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} +")

# Names in a bucket's list (rclone's documentation, "Restricted filenames"): a substitute for each control character and for the
# parts . and .., with U+201B before a character that is none.
_CONTROL = re.compile("(?<!\u201b)[\u2400-\u241f\u2421]")
_DOTS = {"\uff0e": ".", "\uff0e\uff0e": ".."}

# Whoever counts the bytes decides what is tried again, and when.
_OURS = ("--low-level-retries", "1", "--retries", "1")


class Rclone:
    """The rclone binary on PATH, with a fixed environment. `idle` is after how many silent seconds it drops a connection."""

    def __init__(self, environment: Mapping[str, str], flags: Sequence[str], *, idle: float, patience: Patience) -> None:
        self._patience = patience
        self._environment = {**os.environ, **environment, "RCLONE_CONFIG": "", "GOGC": "50"}
        self._flags = ["--config", "", "--timeout", f"{idle}s", "--contimeout", f"{idle}s", *flags]

    def listing(self, location: str, only: Iterable[str] = ()) -> list[dict[str, Any]]:
        """Every file below `location`, as `rclone lsjson` describes it; of `only` those that are there. Raises PreheatError."""
        names = "".join(f"{path}\n" for path in only)
        chosen = ["--files-from-raw", "-"] if names else []
        found = json.loads(self._run(["lsjson", "-R", "--files-only", "--hash", "--no-mimetype", *chosen, location], names))
        return [each for each in found if not each["IsDir"]]

    def stat(self, location: str) -> dict[str, Any]:
        """One file, as `rclone lsjson --stat` describes it. Raises PreheatError."""
        return json.loads(self._run(["lsjson", "--stat", "--no-mimetype", location]))

    def read(self, location: str, offset: int = 0, count: int | None = None) -> bytes:
        """The bytes of one small file, or some of them. Raises PreheatError."""
        part = [] if count is None else ["--offset", str(offset), "--count", str(count)]
        return self._run(["cat", *part, location])

    def link(self, location: str) -> str:
        """A URL that reads one object for ten minutes. It is a credential: never print it. Raises PreheatError."""
        return self._run(["link", "--expire", "10m", location]).decode().strip().splitlines()[-1]

    def stream(self, location: str, offset: int, count: int) -> subprocess.Popen[bytes]:
        """A running rclone that writes `count` bytes of one file to its stdout."""
        command = ["rclone", "cat", *self._flags, *_OURS, "--buffer-size", "4M", "--offset", str(offset), "--count", str(count), location]
        # stderr stays small: one line for an error that ends the stream, at most a few for its retries.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            bufsize=0,
            pipesize=1 << 20,
        )

    def copy(self, root: str, paths: Iterable[str], into: Path, *, streams: int, alive: Callable[[], bool]) -> str:
        """Copy `paths` below `root` into a directory; the last error line, "" for none. Ends early when `alive` says so."""
        options = ["--no-check-dest", "--ignore-checksum", "--transfers", str(streams), "--buffer-size", "1M"]
        command = ["rclone", "copy", *self._flags, *_OURS, *options, "--files-from-raw", "-", root, str(into)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self._environment
        ) as process:
            watcher = _Watcher(process, alive)
            _out, err = process.communicate("".join(f"{path}\n" for path in paths).encode())
            watcher.end()
        return "" if process.returncode == 0 else last_line(err) or f"rclone ended with {process.returncode}"

    def sha256s(self, root: str, paths: Iterable[str], *, streams: int) -> dict[str, str]:
        """The sha256 of files below `root`, read at the source; of those that can be read, at the first try."""
        options = ["--download", "--checkers", str(streams), "--files-from-raw", "-"]
        command = ["rclone", "hashsum", "sha256", *self._flags, *_OURS, *options, root]
        text = "".join(f"{path}\n" for path in paths).encode()
        done = subprocess.run(command, input=text, capture_output=True, env=self._environment, check=False)
        return {match[2]: match[1] for line in done.stdout.decode(errors="replace").splitlines() if (match := _SUM.fullmatch(line))}

    def _run(self, arguments: Sequence[str], text: str = "") -> bytes:
        tries = 0
        while True:
            try:
                return self._once(arguments, text)
            except PreheatError as failure:
                tries += 1
                if not failure.transient or self._patience.ended(tries):
                    raise
                self._patience.wait(tries, arguments[-1], failure.found or failure.problem)

    def _once(self, arguments: Sequence[str], text: str) -> bytes:
        command = ["rclone", *arguments[:1], *self._flags, *_OURS, *arguments[1:]]
        try:
            done = subprocess.run(command, input=text.encode(), capture_output=True, env=self._environment, check=False)
        except FileNotFoundError:
            raise PreheatError(
                Exit.BAD_REQUEST, "there is no rclone on PATH", "use an image that has it, see preheat.rcloneImage"
            ) from None
        if done.returncode == 0:
            return done.stdout
        line = last_line(done.stderr)
        if refusal := untrusted(line, arguments[-1]):
            raise refusal
        if done.returncode in (_DIRECTORY_NOT_FOUND, _FILE_NOT_FOUND):
            # A location names no secret, unlike the environment that reaches it.
            remedy = "check the store's bucket and prefix, and weights.path"
            raise PreheatError(Exit.REFUSED, f"nothing is at {arguments[-1]}", remedy, found=line)
        remedy = "check that it is up and that the key may read it"
        raise PreheatError(Exit.SOURCE, "the source did not answer as it should", remedy, found=line, transient=True)


class _Watcher:
    """Kills a process when `alive` turns false."""

    def __init__(self, process: subprocess.Popen[bytes], alive: Callable[[], bool]) -> None:
        self._ended = threading.Event()
        self._process = process
        self._alive = alive
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            if not self._alive():
                self._process.kill()
                return


def key(listed: str) -> str:
    """The key of an object that a bucket's list names so: with its control characters, and with its parts `.` and `..`."""
    text = _CONTROL.sub(lambda match: "\x7f" if match[0] == "\u2421" else chr(ord(match[0]) - 0x2400), listed)
    return "/".join(_DOTS.get(part, part) for part in text.split("/"))


def last_line(stderr: bytes) -> str:
    """The last message that rclone wrote, in one line, without its time stamp and without any credential."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    start = max((number for number, line in enumerate(lines) if _STAMP.match(line)), default=0)
    text = _QUERY.sub(r"\1", " ".join(_STAMP.sub("", " ".join(lines[start:])).split()))
    _about, mark, rest = text.partition(" : ")
    return scrubbed(rest if mark else text)[:400]
