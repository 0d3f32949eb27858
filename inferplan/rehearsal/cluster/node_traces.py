"""The traces of a real node outside its cluster's directory: a control group in each hierarchy, and a
folder of sockets.
"""

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
_RUNTIME: Final = Path("/run")


def name_on_machine(directory: Path) -> str:
    """The name of the node's folder of sockets and of its control groups, for the cluster in
    `directory`.
    """
    # The path of a socket has at most 107 characters.
    return f"inferplan-{hashlib.sha256(str(directory).encode()).hexdigest()[:10]}"


def runtime_folder(directory: Path) -> Path:
    return _RUNTIME / name_on_machine(directory)


def control_groups(directory: Path) -> list[Path]:
    """The node's control group in each hierarchy. A kubelet ends what it does not know below its
    root, so nodes of two clusters have one each.
    """
    mounted = CONTROL_GROUPS
    hierarchies = [mounted] if (mounted / "cgroup.controllers").exists() else mounted.glob("*/")
    return [each / name_on_machine(directory) for each in hierarchies]


def remove(directory: Path) -> None:
    """Delete what a node that ended left. A machine that never had one is unchanged."""
    for root in control_groups(directory):
        for group in (*sorted(root.rglob("*/"), reverse=True), root):
            with suppress(OSError):
                group.rmdir()
    shutil.rmtree(runtime_folder(directory), ignore_errors=True)
