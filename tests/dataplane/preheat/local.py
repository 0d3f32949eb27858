"""A model in a mounted directory, which tests of the share's own faults copy from: no server in
between that could fail too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferplan.components.sources import VolumeClaim

from .invariants import publish
from .rig import MODEL, Job


def put(folder: Path, files: Mapping[str, bytes], *, sums: bool = True) -> None:
    """Make `files` the model in `folder`, with their SHA256SUMS unless `sums` is false. What is the
    same keeps its time.
    """
    published = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in sorted(files.items())
    ).encode()
    wanted = {**files, **({"SHA256SUMS": published} if sums else {})}
    publish(str(folder), files, whole=True)
    folder.mkdir(parents=True, exist_ok=True)
    for path in [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).as_posix() not in wanted
    ]:
        path.unlink()
    for path, data in wanted.items():
        if not (folder / path).is_file() or (folder / path).read_bytes() != data:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            part = folder.parent / f"part-{os.getpid()}"
            part.write_bytes(data)
            part.replace(folder / path)


def local_job(make: Any, folder: Path, **changes: Any) -> Job:
    """The container of a Job that copies the model in `folder`; `make` and `changes` are those of
    the fixture `job`.
    """
    tuning = {"report_seconds": 60.0, "retries": 2, **changes.pop("tuning", {})}
    return make(
        **{
            "source": VolumeClaim(name="origin"),
            "mounts": {"/source": folder.parent},
            "tuning": tuning,
            **changes,
        }
    )


def source_of(tmp_path: Path) -> Path:
    """Where the model's directory is."""
    return tmp_path / "source" / MODEL
