"""What may be in a model's directory, told from names and headers: no pickles unasked, no missing shard, no cut-off file.

It reads headers only; whether bytes are the right ones is for checksums to say.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from .manifest import PARTIAL, READY
from .outcome import Exit, PreheatError

# Loading any of these runs code that the file brings along.
PICKLES = (".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth")
_HEADER_LIMIT = 100_000_000  # the limit that the safetensors library itself sets


def wanted(path: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether `path` passes the globs: matches some include, if there is any, and no exclude."""
    inclusive = tuple(include)
    return (not inclusive or any(fnmatchcase(path, glob) for glob in inclusive)) and not any(fnmatchcase(path, glob) for glob in exclude)


def refuse_names(paths: Iterable[str], allow_pickle: Iterable[str]) -> None:
    """Raise PreheatError(REFUSED) for the first path that cannot be stored, or that is a pickle nobody allowed."""
    known = set(paths)
    allowed = tuple(allow_pickle)
    for path in sorted(known):
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or not path.isprintable() or path in (READY, PARTIAL):
            raise PreheatError(Exit.REFUSED, "this name cannot be stored safely", "rename it at the source or exclude it", file=repr(path))
        parents = (str(parent) for parent in PurePosixPath(path).parents)
        if clash := next((parent for parent in parents if parent in known), None):
            raise PreheatError(
                Exit.REFUSED, f"{clash!r} is a file and a directory at the source", "remove or exclude one of them", file=path
            )
        if PurePosixPath(path).suffix.lower() in PICKLES and not any(fnmatchcase(path, glob) for glob in allowed):
            remedy = f"add {path!r} to preheat.exclude, or to preheat.allowPickle if a server needs it and you trust its author"
            raise PreheatError(Exit.REFUSED, "loading this kind of file runs code that it contains", remedy, file=path)


def check_file(path: Path, name: str) -> None:
    """Raise PreheatError(REFUSED) when a safetensors file is cut off or is none."""
    if not name.endswith(".safetensors"):
        return
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = struct.unpack("<Q", stream.read(8).ljust(8, b"\x00"))[0]
        if length < len("{}") or length > min(_HEADER_LIMIT, size - 8):
            raise _broken(name, f"a header of at most {max(size - 8, 0)} bytes", f"one of {length}")
        try:
            header: dict[str, Any] = json.loads(stream.read(length))
            ends = [tensor["data_offsets"][1] for key, tensor in header.items() if key != "__metadata__"]
            end = 8 + length + max(ends, default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            raise _broken(name, "a JSON header with data_offsets", "something else") from None
    if end != size:
        raise _broken(name, f"{end} bytes by its own header", f"{size} bytes")


def check_index(directory: Path, names: Iterable[str]) -> None:
    """Raise PreheatError(REFUSED) when an index (*.safetensors.index.json) names a shard that is not there."""
    known = set(names)
    for name in sorted(known):
        if not name.endswith(".safetensors.index.json"):
            continue
        try:
            shards = set(json.loads((directory / name).read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _broken(name, "a JSON object with weight_map", "something else") from None
        folder = name.rpartition("/")[0]
        for shard in sorted(map(str, shards)):
            path = f"{folder}/{shard}" if folder else shard
            if path not in known:
                remedy = "upload the shard, or correct preheat.include and preheat.exclude"
                raise PreheatError(Exit.REFUSED, f"a shard that {name} names is missing", remedy, file=path)


def _broken(name: str, expected: str, found: str) -> PreheatError:
    remedy = "the file is broken at its source: upload it again, then raise preheat.round"
    return PreheatError(Exit.REFUSED, "the file is cut off or damaged", remedy, file=name, expected=expected, found=found)
