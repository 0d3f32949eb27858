"""Which of a Job's pods filled this node, so that a second pod that lands on it does not pass for the node it was meant for.

Kubernetes keeps the pods of one Job apart only while they run: where a node cannot be used for a while, the pod that waits
for it is put on a node whose pod has ended. It would find everything READY there, and the other node would stay empty.
"""

from __future__ import annotations

import os
from pathlib import Path

from .disk import write
from .errors import Exit, PreheatError


class Turn:
    """The turn of this pod on its node; without an index from Kubernetes there is only one pod, and it may always go."""

    def __init__(self, private: Path) -> None:
        self._index = os.environ.get("JOB_COMPLETION_INDEX")
        self._path = private / "turns" / (os.environ.get("JOB_NAME") or "job")

    def check(self) -> None:
        """Raise PreheatError(TARGET) when another pod of the same Job has filled this node."""
        filled = self._path.read_text().strip() if self._path.is_file() else None
        if self._index is not None and filled not in (None, self._index):
            raise PreheatError(
                Exit.TARGET,
                f"pod {filled} of this Job has filled this node already, so the node that pod {self._index} was meant for has no copy",
                "look for a node of the pool that is cordoned, not ready or full (kubectl get nodes), or state fewer nodes",
            )

    def note(self) -> None:
        """Remember that this pod has filled the node."""
        if self._index is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for old in self._path.parent.iterdir():
            if old.name != self._path.name and old.name.rpartition("-")[0] == self._path.name.rpartition("-")[0]:
                old.unlink(missing_ok=True)
        write(self._path, f"{self._index}\n")
