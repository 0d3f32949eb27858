"""Runs rclone: lists a store, reads ranges of files, copies batches. Credentials are in its environment only; it reads no configuration file."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .certificates import untrusted
from .errors import Exit, PreheatError, Retries, Stopped, scrubbed

REMOTE = "source:"
# rclone's own exit codes, from its documentation ("List of exit codes", read 2026-11).
_DIRECTORY_NOT_FOUND, _FILE_NOT_FOUND = 3, 4

# The query of a signed address is a credential.
_QUERY = re.compile(r"(https?://[^\s\"'?]+)\?[^\s\"']*")
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_STAMP = re.compile(r"^[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} +")
# The headers that --dump adds, each with lines of its own up to the next stamp.
_DEBUG = re.compile(rf"{_STAMP.pattern}(?:DEBUG|NOTICE) *:(?:(?!{_STAMP.pattern}).*\n?)*", re.MULTILINE)
_ANSWER = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})[^\r\n]*\r?\n((?:[^\r\n]+\r?\n)*)")
_OK, _PARTIAL, _REDIRECTS = 200, 206, 300

# Names in a bucket's list (rclone's documentation, "Restricted filenames"): a substitute for each control character and for the
# parts . and .., with U+201B before a character that is not a substitute.
_CONTROL = re.compile("(?<!\u201b)[\u2400-\u241f\u2421]")
_DOTS = {"\uff0e": ".", "\uff0e\uff0e": ".."}

# S3 answers a GET with all that a batch needs of an object. Its other commands need the answer of a HEAD.
_NO_HEAD = {"RCLONE_S3_NO_HEAD_OBJECT": "true"}
# The callers count bytes and decide what is tried again.
_ONE_TRY = ("--low-level-retries", "1", "--retries", "1")
_POLL_SECONDS = 0.2


class Rclone:
    """The rclone binary on PATH, with a fixed environment. It drops a connection after `idle` seconds without data."""

    def __init__(self, environment: Mapping[str, str], flags: Sequence[str], *, idle: float, retries: Retries) -> None:
        self._retries = retries
        self._environment = {**os.environ, **environment, "RCLONE_CONFIG": ""}
        self._flags = ["--config", "", "--timeout", f"{idle}s", "--contimeout", f"{idle}s", *flags, *_ONE_TRY]

    def listing(self, location: str, only: Iterable[str] = ()) -> list[dict[str, Any]]:
        """Every file below `location`, as `rclone lsjson` describes it; of `only` those that exist. Raises PreheatError."""
        names = _lines(only)
        selection = ["--files-from-raw", "-"] if names else []
        entries = json.loads(self._run(["lsjson", "-R", "--files-only", "--hash", "--no-mimetype", *selection, location], names))
        return [each for each in entries if not each["IsDir"]]

    def read(self, location: str, offset: int = 0, count: int | None = None) -> bytes:
        """The bytes of one small file, or a range of them. Raises PreheatError."""
        part = [] if count is None else ["--offset", str(offset), "--count", str(count)]
        return self._run(["cat", *part, location])

    def link(self, location: str) -> str:
        """A URL that reads one object for ten minutes. It is a credential: never print it. Raises PreheatError."""
        return self._run(["link", "--expire", "10m", location]).decode().strip().splitlines()[-1]

    def stream(self, location: str, offset: int, count: int) -> subprocess.Popen[bytes]:
        """A running rclone that writes `count` bytes of one file to its stdout, and first the headers of the answer to its stderr."""
        command = ["rclone", "cat", *self._flags, "--dump", "headers", "--buffer-size", "4M", "--offset", str(offset), "--count", str(count), location]
        # stderr stays small: one line for an error that ends the stream, at most a few for its retries.
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, **pipes, env={"GOGC": "50", **self._environment}, bufsize=0, pipesize=1 << 20)

    def copy(self, root: str, paths: Iterable[str], into: Path, *, streams: int, alive: Callable[[], bool]) -> str:
        """Copy `paths` below `root` into a directory; the last error line, "" for none. Ends early when `alive` turns false."""
        options = ["--no-check-dest", "--ignore-checksum", "--transfers", str(streams), "--buffer-size", "1M"]
        done = self._batch(["copy", *options, "--files-from-raw", "-", root, str(into)], _lines(paths), alive, **_NO_HEAD)
        return "" if done.returncode == 0 else last_line(done.stderr) or f"rclone ended with {done.returncode}"

    def sha256s(self, root: str, paths: Iterable[str], *, streams: int, alive: Callable[[], bool]) -> dict[str, str]:
        """The sha256 of the files below `root` that can be read at the source, each with one try. Ends early as `copy` does."""
        done = self._batch(
            ["hashsum", "sha256", "--download", "--checkers", str(streams), "--files-from-raw", "-", root], _lines(paths), alive, **_NO_HEAD
        )
        return {match[2]: match[1] for line in done.stdout.decode(errors="replace").splitlines() if (match := _SUM.fullmatch(line))}

    def _batch(self, arguments: Sequence[str], text: str, alive: Callable[[], bool], **more: str) -> subprocess.CompletedProcess[bytes]:
        """One rclone that reads `text`; it is killed when `alive` turns false."""
        command = ["rclone", *arguments[:1], *self._flags, *arguments[1:]]
        # A file, because Popen.communicate does not continue its input after a timeout (Python 3.11).
        with tempfile.TemporaryFile() as names:
            names.write(text.encode())
            names.seek(0)
            with subprocess.Popen(command, stdin=names, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**self._environment, **more}) as process:
                while True:
                    try:
                        out, err = process.communicate(timeout=_POLL_SECONDS)
                        return subprocess.CompletedProcess(command, process.returncode, out, err)
                    except subprocess.TimeoutExpired:
                        if not alive():
                            process.kill()

    def _run(self, arguments: Sequence[str], text: str = "") -> bytes:
        tries = 0
        while True:
            try:
                return self._once(arguments, text)
            except PreheatError as failure:
                tries += 1
                if not failure.transient or tries > self._retries.count:
                    raise
                self._retries.wait(tries, arguments[-1], failure.found or failure.problem)

    def _once(self, arguments: Sequence[str], text: str) -> bytes:
        try:
            done = self._batch(arguments, text, lambda: not self._retries.stopped)
        except FileNotFoundError:
            raise PreheatError(
                Exit.BAD_REQUEST, "there is no rclone on PATH", "use an image that has it, see preheat.rcloneImage"
            ) from None
        if self._retries.stopped:
            raise Stopped
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


def other_answer(stderr: bytes, offset: int) -> str:
    """The last answer that a stream's stderr tells of, if it is neither the file from its byte `offset` nor an error; else ""."""
    status, headers = ([*_ANSWER.findall(stderr.decode(errors="replace"))] or [("", "")])[-1]
    lines = {name.lower(): value.strip() for name, _colon, value in (line.partition(":") for line in headers.splitlines())}
    part = lines.get("content-range", "")
    if not status or int(status) >= _REDIRECTS or (int(status) == _OK and not offset):
        return ""
    if int(status) == _PARTIAL and part.startswith(f"bytes {offset}-"):
        return ""
    return f"HTTP {status} {lines.get('content-type', '')} {part}".strip()


def http_remote(url: str, authorization: str | None) -> dict[str, str]:
    """The environment that makes REMOTE out of a URL and the value of the Authorization header."""
    remote = {"RCLONE_CONFIG_SOURCE_TYPE": "http", "RCLONE_CONFIG_SOURCE_URL": f"{url.rstrip('/')}/"}
    if authorization:
        pair = io.StringIO()
        csv.writer(pair, lineterminator="").writerow(["Authorization", authorization])
        remote["RCLONE_CONFIG_SOURCE_HEADERS"] = pair.getvalue()
    return remote


def _lines(paths: Iterable[str]) -> str:
    return "".join(f"{path}\n" for path in paths)


def key(name: str) -> str:
    """The key of an object from its name in a bucket's list: with its control characters, and with its parts `.` and `..`."""
    text = _CONTROL.sub(lambda match: "\x7f" if match[0] == "\u2421" else chr(ord(match[0]) - 0x2400), name)
    return "/".join(_DOTS.get(part, part) for part in text.split("/"))


def last_line(stderr: bytes) -> str:
    """The last message that rclone wrote, in one line, without its time stamp and without any credential."""
    lines = _DEBUG.sub("", stderr.decode(errors="replace")).strip().splitlines()
    start = max((number for number, line in enumerate(lines) if _STAMP.match(line)), default=0)
    text = _QUERY.sub(r"\1", " ".join(_STAMP.sub("", " ".join(lines[start:])).split()))
    _about, mark, rest = text.partition(" : ")
    return scrubbed(rest if mark else text)[:400]
