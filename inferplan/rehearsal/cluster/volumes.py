"""The directories of volumes that stand for those of provisioners and shares, on a real node."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from inferplan.kube.names import REHEARSED_VOLUMES

_USER: Final = 65532
"""The user of our pods (components/pod_parts.py), whom a share lets write."""


def make_directory(volume: Mapping[str, Any], folder: Path) -> None:
    """Make the directory of a rehearsal's `volume`, where a real node mounts it: in `folder`, which
    exists if there is such a node. Its owner is the user of our pods.
    """
    path = (volume["spec"].get("hostPath") or {}).get("path", "")
    if folder.is_dir() and path.startswith(f"{REHEARSED_VOLUMES}/"):
        directory = folder / path.removeprefix(f"{REHEARSED_VOLUMES}/")
        directory.mkdir(exist_ok=True)
        os.chown(directory, _USER, _USER)
