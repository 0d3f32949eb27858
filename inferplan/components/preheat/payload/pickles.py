"""Recognizes files whose loading can run code, by their bytes: pickles of every protocol, also compressed, and archives and formats that contain
pickles.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
import pickletools
import re
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import IO, cast

# Archives (zip, 7z, tar), NumPy and HDF5: torch, joblib, keras and NeMo load pickles from them.
_CONTAINER = re.compile(rb"PK\x03\x04|PK\x05\x06|PK\x07\x08|7z\xbc\xaf\x27\x1c|\x93NUMPY|\x89HDF\r\n\x1a\n|.{257}ustar", re.DOTALL)
# joblib opens each of these by its first bytes.
_COMPRESSIONS = (
    (re.compile(rb"\x1f\x8b\x08"), lambda: zlib.decompressobj(31)),
    (re.compile(rb"\x78[\x01\x5e\x9c\xda]"), zlib.decompressobj),
    (re.compile(rb"BZh"), bz2.BZ2Decompressor),
    (re.compile(rb"\xfd7zXZ\x00|\x5d\x00\x00"), lambda: lzma.LZMADecompressor(memlimit=64 << 20)),
)
_START, _LONGEST, _MOST_OPCODES = 1 << 16, 1 << 20, 4096
# Without a protocol number, fewer instructions than this may be any bytes.
_FEWEST_OPCODES = 4
_ASCII = bytes(code if code < 128 and code != ord("\\") else ord("?") for code in range(256))
_IMPORTS, _CALLS = ("GLOBAL", "STACK_GLOBAL"), ("REDUCE", "BUILD", "OBJ", "NEWOBJ", "NEWOBJ_EX")


# Weights, images and documents by their first bytes; protocol buffers have none, so their name counts too.
_KNOWN = re.compile(rb"GGUF|.{4}TFL3|\x89PNG\r\n|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|%PDF-", re.DOTALL)
_PROTOCOL_BUFFERS = {".onnx": b"\x08", ".model": b"\x0a", ".spm": b"\x0a"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


def is_known(stream: IO[bytes], name: str) -> bool:
    """True if a file's first bytes are text, or those of a format that runs no code."""
    stream.seek(0)
    start = stream.read(_START)
    first = _PROTOCOL_BUFFERS.get(PurePosixPath(name).suffix.lower())
    if _KNOWN.match(start) or (first is not None and start.startswith(first)):
        return True
    try:
        # A character at the end of what was read may be cut.
        return not _CONTROL.search(codecs.getincrementaldecoder("utf-8")().decode(start))
    except UnicodeDecodeError:
        return False


def runs_code(stream: IO[bytes], size: int) -> bool:
    """True if loading the file can run code that it contains. `stream` is at the start of its `size` bytes."""
    start = stream.read(_START)
    # The end of an archive has this mark, and a small file was read whole.
    if _CONTAINER.match(start) or ((size > len(start) or b"PK\x05\x06" in start) and zipfile.is_zipfile(stream)):
        return True
    for magic, decompressor in _COMPRESSIONS:
        if magic.match(start):
            try:
                inner = decompressor().decompress(start, _START)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
                continue
            return _CONTAINER.match(inner) is not None or _is_pickle(_Bounded(io.BytesIO(inner), 1 << 40))
    stream.seek(0)
    return _is_pickle(_Bounded(stream, size))


class _Endless(Exception):  # noqa: N818 - not an error: nothing so far disproves a pickle
    """A line is longer than what is read of a file."""


class _Skipped(bytes):
    """A value of `size` bytes that was not read into memory."""

    size = 0

    def __len__(self) -> int:
        return self.size


class _Bounded:
    """A file for pickletools, which would read values of any length into memory."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._size = stream, size

    def read(self, count: int) -> bytes:
        if count <= _LONGEST:
            return self._stream.read(count)
        if self._stream.seek(count, os.SEEK_CUR) > self._size:
            raise ValueError("a value beyond the end of the file")
        value = _Skipped()
        value.size = count
        return value

    def readline(self) -> bytes:
        line = self._stream.readline(_LONGEST)
        if len(line) == _LONGEST:
            raise _Endless
        # A loader may accept other encodings than ASCII.
        return line.translate(_ASCII)


def _is_pickle(stream: _Bounded) -> bool:
    """True if the bytes are instructions of a pickle, up to its end or up to the first that calls what it imported."""
    stack, certain = _Stack(), False
    try:
        for number, (opcode, argument, _position) in enumerate(pickletools.genops(cast("IO[bytes]", stream))):
            if not stack.takes(opcode, argument):
                return False
            if opcode.name == "INST" or (opcode.name in _CALLS and certain) or number > _MOST_OPCODES:
                return True
            if opcode.name == "STOP":
                return certain or number >= _FEWEST_OPCODES
            certain = certain or opcode.name in (*_IMPORTS, "PROTO")
    except _Endless:
        return True
    except (ValueError, IndexError):
        pass
    return False


class _Stack:
    """The depth of a pickle's stack, its marks and what it remembers: other bytes soon ask for more than is there."""

    def __init__(self) -> None:
        self._depth = 0
        self._marks: list[int] = []
        self._memo: set[object] = set()

    def takes(self, opcode: pickletools.OpcodeInfo, argument: object) -> bool:
        """Run an instruction. False if it needs what is not there; IndexError if it needs a mark."""
        needs = opcode.stack_before
        if pickletools.markobject in needs:
            # Everything above the last mark, and what is below it.
            self._depth, needs = self._marks.pop(), needs[: needs.index(pickletools.markobject)]
        if self._depth < len(needs) or (opcode.name.endswith("GET") and argument not in self._memo):
            return False
        if opcode.name == "MARK":
            self._marks.append(self._depth)
        elif opcode.name == "POP" and self._marks and self._marks[-1] == self._depth:
            self._marks.pop()
        elif "PUT" in opcode.name or opcode.name == "MEMOIZE":
            self._memo.add(len(self._memo) if argument is None else argument)
        else:
            self._depth += len(opcode.stack_after) - len(needs)
        return True
