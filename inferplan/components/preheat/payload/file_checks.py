"""Checks of a model's files by names and contents: safe names, no pickles unless allowed, no missing shard, no cut-off file."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from .errors import Exit, PreheatError
from .json_text import check_json, leaves
from .manifest import MARKS
from .pickles import is_known, runs_code
from .tensors import end_of_file

# Loading any of these may run code from the file: pickles by their usual names, and formats that can contain pickles.
PICKLES = (
    *(".bin", ".ckpt", ".cpkl", ".dill", ".distcp", ".joblib", ".mar", ".nemo", ".p", ".pickle", ".pk", ".pkl", ".pt", ".pt2", ".pth"),
    *(".pdopt", ".pdparams", ".sav", ".th", ".torch", ".h5", ".hdf5", ".keras", ".npy", ".npz"),
)
COMPRESSED = (".bz2", ".gz", ".tgz", ".xz", ".zip", ".zst")
_INDICES = (".safetensors.index.json", ".bin.index.json")
# rclone's substitutes for control characters, and its mark before a character of a name that looks like one.
_SUBSTITUTE = re.compile("[\u2400-\u2421\u201b]")
_READERS = 16
_LONGEST_NAME, _LONGEST_PATH = 255, 3800  # limits of file systems in bytes, the second without the share's own directories
# Shards of upstream's savers; a list that was cut off lacks the last of them, and with them the index that names all.
_NUMBERED = re.compile(r"(.*-)([0-9]{5})(-of-)([0-9]{5})(\.[^/]*)")
# How a web page starts. Descriptions in Markdown may start with a tag too, but not with a whole page's.
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_PART_OF_PAGE = re.compile(rb"\s*<(?:head|body|title|meta|script|pre|h1|ul|table|form|center|div|p|a)\b", re.IGNORECASE)
_PAGES, _MARKED_UP = (".html", ".htm", ".xhtml"), (".md", ".xml", ".svg", ".jinja")
_ENCODINGS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
# One thread at a time reads a header, so that four threads need no more memory than one.
_one_header = threading.Lock()


def wanted(path: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """True if `path` matches an include, if there is any, and no exclude."""
    inclusive = tuple(include)
    return (not inclusive or any(fnmatchcase(path, glob) for glob in inclusive)) and not any(fnmatchcase(path, glob) for glob in exclude)


def storable(path: str) -> bool:
    """True if a file can be stored below the model's directory under this name on every file system."""
    # The shell that compares a server's files with READY.sizes drops blanks at the ends of a line.
    return (
        path.isprintable()
        and path == path.strip()
        and not _SUBSTITUTE.search(path)
        and not any(part in ("", ".", "..") for part in path.split("/"))
    )


def unsafe_name(path: str) -> PreheatError:
    """The error for a name that is not `storable`."""
    remedy = "rename it at the source or exclude it"
    allowed = "printable characters, no blank at an end, and no part that is empty, . or .."
    return PreheatError(Exit.REFUSED, "this name cannot be stored safely", remedy, file=repr(path), expected=allowed)


def refuse_names(paths: Iterable[str], allow_pickle: Iterable[str]) -> None:
    """Raise PreheatError(REFUSED) for the first path that cannot be stored, or that is a pickle and not allowed."""
    names = set(paths)
    allowed = tuple(allow_pickle)
    for path in sorted(names):
        if not storable(path) or path in MARKS:
            raise unsafe_name(path)
        if longest := _too_long(path):
            problem, remedy = "this name is too long for a file system", "shorten it at the source or exclude it"
            raise PreheatError(Exit.REFUSED, problem, remedy, file=path, expected=longest[0], found=longest[1])
        if clash := next((path[:end] for end, sign in enumerate(path) if sign == "/" and path[:end] in names), None):
            problem = f"{clash!r} is a file and a directory at the source"
            raise PreheatError(Exit.REFUSED, problem, "remove or exclude one of them", file=path)
        if _is_pickle_by_name(path):
            _refuse_pickle(path, allowed)


def check_file(
    path: Path | str, name: str, allow_pickle: Iterable[str], *, proven: bool = False, trusted: bool = True, strict: bool = False
) -> None:
    """Raise PreheatError(REFUSED) for a pickle by its bytes that is not allowed, and for a broken or cut-off safetensors or JSON file.

    If `strict`, a file of no known kind is rejected too, unless `allow_pickle` lists it.

    JSON is not checked if a checksum of the publisher has `proven` the bytes. A store that is not `trusted` may send other files: web
    pages and compressed files are rejected too.
    """
    with open(path, "rb") as stream:  # noqa: PTH123 - for each of many files
        size = os.fstat(stream.fileno()).st_size
        if not trusted and not proven:
            _refuse_other(stream, name)
        if not name.endswith(".safetensors"):
            if runs_code(stream, size):
                _refuse_pickle(name, allow_pickle)
            if strict and not is_known(stream, name):
                _refuse_unknown(name, allow_pickle)
            if name.endswith(".json") and not proven:
                _check_json(stream, name, size)
            return
        try:
            with _one_header:
                end = end_of_file(stream, size)
        except ValueError as error:
            raise _broken(name, "a header whose tensors have a known type and follow each other", str(error)) from None
    if end != size:
        raise _broken(name, f"{end} bytes by its own header", f"{size} bytes")


def refuse_pickles(directory: Path, paths: Collection[str], allow_pickle: Iterable[str], *, strict: bool = False) -> None:
    """Raise PreheatError(REFUSED) for a pickle in a READY directory that is not allowed, by its name or its bytes; if `strict` for an unknown file."""
    allowed = tuple(allow_pickle)
    refuse_names(paths, allowed)

    def look(path: str) -> None:
        with (directory / path).open("rb") as stream:
            if runs_code(stream, os.fstat(stream.fileno()).st_size):
                _refuse_pickle(path, allowed)
            if strict and not is_known(stream, path):
                _refuse_unknown(path, allowed)

    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(look, (path for path in paths if not path.endswith(".safetensors"))))


def missing_number(paths: Iterable[str]) -> str | None:
    """The first missing file among those that are numbered, such as model-00001-of-00002.safetensors."""
    groups: dict[tuple[str, str, str, str], set[int]] = {}
    for path in sorted(paths):
        if match := _NUMBERED.fullmatch(path):
            stem, number, of, total, suffix = match.groups()
            groups.setdefault((stem, of, total, suffix), set()).add(int(number))
    for (stem, of, total, suffix), numbers in groups.items():
        first = min(1, *numbers)
        for number in range(first, first + int(total)):
            if number not in numbers:
                return f"{stem}{number:05}{of}{total}{suffix}"
    return None


def check_index(directory: Path, names: Iterable[str]) -> None:
    """Raise PreheatError(REFUSED) when an index, such as model.safetensors.index.json, names a missing shard."""
    paths = set(names)
    for name in sorted(paths):
        if not name.endswith(_INDICES):
            continue
        try:
            with (directory / name).open("rb") as stream:
                values = leaves(stream, (directory / name).stat().st_size)
                shards = {str(value) for path, value in values if path[:1] == ("weight_map",) and len(path) > 1}
        except ValueError as error:
            raise _broken(name, "a JSON object with weight_map", str(error)) from None
        if not shards:
            raise _broken(name, "a JSON object with weight_map", "none")
        folder = name.rpartition("/")[0]
        for shard in sorted(shards):
            path = f"{folder}/{shard}" if folder else shard
            if path not in paths:
                remedy = "upload the shard, or correct preheat.include and preheat.exclude"
                raise PreheatError(Exit.REFUSED, f"a shard that {name} names is missing", remedy, file=path)


def _check_json(stream: IO[bytes], name: str, size: int) -> None:
    stream.seek(0)
    try:
        check_json(stream, size)
    except ValueError as error:
        raise _broken(name, "a whole JSON document", str(error)) from None


def _refuse_other(stream: IO[bytes], name: str) -> None:
    """Raise PreheatError(REFUSED) for a web page or a compressed file under the name of another kind of file."""
    start = stream.read(4096)
    stream.seek(0)
    if not name.endswith(_PAGES) and (_PAGE.match(start) or (not name.endswith(_MARKED_UP) and _PART_OF_PAGE.match(start))):
        remedy = "check the address and the store's credentials: an index page, an error or a login came instead; or exclude the file"
        raise PreheatError(Exit.REFUSED, "the server sends a web page instead of this file", remedy, file=name)
    encoding = next((each for magic, each in _ENCODINGS.items() if start.startswith(magic)), None)
    if encoding and not name.endswith(COMPRESSED):
        remedy = "switch compression off for model files at the server, or add a SHA256SUMS file if it is compressed on purpose"
        raise PreheatError(Exit.REFUSED, f"the server compresses this file ({encoding})", remedy, file=name)


def _too_long(path: str) -> tuple[str, str] | None:
    part = max((len(part.encode(errors="surrogateescape")) for part in path.split("/")), default=0)
    whole = len(path.encode(errors="surrogateescape"))
    if part > _LONGEST_NAME:
        return f"at most {_LONGEST_NAME} bytes between two slashes", f"{part}"
    return (f"at most {_LONGEST_PATH} bytes", f"{whole}") if whole > _LONGEST_PATH else None


def _is_pickle_by_name(path: str) -> bool:
    suffixes = [f".{suffix.lower()}" for suffix in path.rpartition("/")[2].lstrip(".").split(".")[1:]]
    while suffixes and suffixes[-1] in (*COMPRESSED, ".tar"):
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in PICKLES


def _refuse_pickle(path: str, allowed: Iterable[str]) -> None:
    _refuse(path, allowed, "loading this kind of file runs code that it contains", "if a server needs it and you trust its author")


def _refuse_unknown(path: str, allowed: Iterable[str]) -> None:
    _refuse(path, allowed, "its bytes are of no known kind, and preheat.strict is set", "if a server needs it")


def _refuse(path: str, allowed: Iterable[str], problem: str, condition: str) -> None:
    if not any(fnmatchcase(path, glob) for glob in allowed):
        remedy = f"add {path!r} to preheat.exclude, or to preheat.allowPickle {condition}"
        raise PreheatError(Exit.REFUSED, problem, remedy, file=path)


def _broken(name: str, expected: str, found: str) -> PreheatError:
    remedy = "the file is broken at its source: upload it again, then raise preheat.round"
    return PreheatError(Exit.REFUSED, "the file is cut off or damaged", remedy, file=name, expected=expected, found=found)
