"""A control group with a memory limit, like that of a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryGroup:
    """`folder` of the kernel; `peaks` are the files with the largest use so far, in bytes."""

    folder: Path
    peaks: tuple[str, ...]

    def wrap(self, binary: str, script: Path) -> str:
        """A script that runs `binary` in the group."""
        script.write_text(f'#!/bin/sh\necho $$ > {self.folder}/cgroup.procs\nexec {binary} "$@"\n')
        script.chmod(0o755)
        return str(script)

    @property
    def peak(self) -> int:
        return sum(int((self.folder / name).read_text()) for name in self.peaks)


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """A group whose processes may use `limit` bytes; skips the test where there can be none."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().split())
    # With the second version of control groups there is one tree, and sockets count.
    one_tree = (_ROOT / "cgroup.controllers").exists()
    parent = _ROOT / own[""].lstrip("/") if one_tree else _ROOT / "memory"
    folder = parent / f"gateway-{os.getpid()}"
    names = (
        ("memory.max",) if one_tree else ("memory.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes")
    )
    peaks = (
        ("memory.peak",)
        if one_tree
        else ("memory.max_usage_in_bytes", "memory.kmem.tcp.max_usage_in_bytes")
    )
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            for name in names:
                (folder / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"the control group takes no memory limit: {error}")
        yield MemoryGroup(folder, peaks)
    finally:
        folder.rmdir()
