"""What is wrong with a stack under the Pulumi CLI after an update that was cut off, and how it is put right.

Diagnosing reads the state, its locks and the cluster; mending cancels the lock of a dead process and writes the repaired state.
Neither touches an object of the cluster: that is left to the update that follows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operations.errors import CommandError
from operations.pulumi_cli import answer
from operations.recovery.declared import declared_objects
from operations.recovery.deployment import Repair, repair
from operations.recovery.lock import Lock, locks_of
from stackfile.reader import PROJECT

if TYPE_CHECKING:
    from operations.live import LiveCluster
    from operations.workspace import Workspace
    from rehearsal.engine.wire.recording import Recording


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The locks of a stack, and its state as exported and as repaired."""

    stack: str
    locks: tuple[Lock, ...]
    exported: Mapping[str, Any]
    repair: Repair

    @property
    def findings(self) -> list[str]:
        """One sentence for each thing that keeps the next update from succeeding; empty for a healthy stack."""
        locks = [
            f"the stack is locked by {each}, which no longer runs; the lock is cancelled" for each in self.locks if each.alive is False
        ]
        return [*locks, *self.repair.pending, *self.repair.adopted]

    def check(self, *, cancel_lock: bool) -> None:
        """Raise CommandError where going on would harm: a running update, or objects that are not ours."""
        for lock in self.locks:
            if lock.alive:
                raise CommandError(
                    f"{self.stack} is being updated by {lock}. Wait for it to end, or stop it with: kill -INT {lock.pid}. "
                    f"Then run: inferplan recover {self.stack}",
                    exit_code=1,
                )
            if lock.alive is None and not cancel_lock:
                raise CommandError(
                    f"{self.stack} is locked by {lock}, and this machine cannot tell whether that process still runs. "
                    f"Make sure that it does not, then run: inferplan recover {self.stack} --cancel-lock",
                    exit_code=1,
                )
        if self.repair.foreign:
            raise CommandError(
                f"{self.stack} declares objects that exist and were not created by inferplan (no label app.kubernetes.io/managed-by: "
                f"inferplan): {', '.join(self.repair.foreign)}. Rename what the stack declares, or delete these objects if nobody needs them",
                exit_code=1,
            )


def diagnose(workspace: Workspace, recording: Recording, environment: Mapping[str, str], live: LiveCluster) -> Diagnosis:
    """Reads locks, state and cluster; `recording` is what the stack declares. Raises CommandError when the state cannot be read."""
    backend = environment.get("PULUMI_BACKEND_URL") or json.loads(answer(["whoami", "--json"], environment)).get("url", "")
    exported = json.loads(answer(["stack", "export", "--stack", workspace.stack], environment))
    declared = declared_objects(recording, workspace.settings.namespace)
    return Diagnosis(
        stack=workspace.stack,
        locks=tuple(locks_of(backend, PROJECT, workspace.stack)),
        exported=exported,
        repair=repair(exported.get("deployment") or {}, declared, live.find),
    )


def mend(diagnosis: Diagnosis, environment: Mapping[str, str]) -> None:
    """Cancels the locks and writes the repaired state; a copy of the state before it goes to a file that is named in every error."""
    if diagnosis.locks:
        answer(["cancel", "--yes", diagnosis.stack], environment)
    if not diagnosis.repair.changed:
        return
    folder = Path(tempfile.mkdtemp(prefix="inferplan-recover-"))
    before, after = folder / "state-before.json", folder / "state-repaired.json"
    before.write_text(json.dumps(diagnosis.exported), encoding="utf-8")
    after.write_text(json.dumps({**diagnosis.exported, "deployment": diagnosis.repair.deployment}), encoding="utf-8")
    try:
        answer(["stack", "import", "--stack", diagnosis.stack, "--file", str(after)], environment)
    except CommandError as error:
        raise CommandError(f"{error.message} The state is unchanged; a copy is in {before}", exit_code=1) from None
    for path in (before, after):
        path.unlink()
    folder.rmdir()
