"""Traces by which a killed run of Pulumi is recognized: a destroy that did not end, and plugins
that outlive their engine.

Pulumi records a destroy in its history when it ends, and its lock does not name the command. A
killed engine leaves its provider running (120 MB each); inferplan finds it by a variable that it
gave to the engine. Only Linux shows the variables of a process.
"""

import os
import signal
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from inferplan.documents.files import state_directory
from inferplan.workspace.project import project_root

VARIABLE = "INFERPLAN_ENGINE_RUN"
_PLUGINS = ("pulumi-resource", "pulumi-language", "pulumi-analyzer")


def mark_of(stack: str) -> str:
    """The value of VARIABLE for runs of `stack` of this project: a digest, since anyone may read a
    process's name.
    """
    return sha256(f"{project_root()}\0{stack}\0{state_directory()}".encode()).hexdigest()[:24]


def begin(verb: str, stack: str) -> None:
    if verb == "destroy":
        path = _file(stack)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def end(stack: str) -> None:
    _file(stack).unlink(missing_ok=True)


def destroy_began(stack: str) -> float | None:
    """The time at which inferplan began to destroy `stack`, None if that destroy ended or an update
    has succeeded since.
    """
    try:
        return _file(stack).stat().st_mtime
    except FileNotFoundError:
        return None


def end_orphans(stack: str) -> int:
    """End the plugins of earlier runs of `stack`, and return their number. Call it only while no
    engine runs.
    """
    entry, ended = f"{VARIABLE}={mark_of(stack)}".encode(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name = (
                (folder / "cmdline")
                .read_bytes()
                .split(b"\0")[0]
                .decode(errors="replace")
                .rpartition("/")[2]
            )
            if name.startswith(_PLUGINS) and entry in (folder / "environ").read_bytes().split(
                b"\0"
            ):
                os.kill(int(folder.name), signal.SIGTERM)
                ended += 1
    return ended


def _file(stack: str) -> Path:
    return state_directory() / "destroys" / mark_of(stack)
