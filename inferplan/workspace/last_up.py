"""The plan of the last `up` on a stack's simulated cluster, for `plan` to compare with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from inferplan.pulumi_engine.plan.states import States, load, save, states_of
from inferplan.rehearsal.cluster.record import cluster_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from inferplan.pulumi_engine.recording import Recording
    from inferplan.workspace.workspace import Workspace


def _file(cluster: str) -> Path:
    return cluster_directory(cluster) / "last-up.json"


@contextmanager
def brought_up(workspace: Workspace, recording: Recording, *, whole: bool = True) -> Iterator[None]:
    """Keep the plan of `recording`, secrets masked, if the update in the block succeeds and is of
    the `whole` stack. Until then no plan is known.
    """
    forget(workspace.cluster)
    yield
    file = _file(workspace.cluster)
    if whole and workspace.simulated and file.parent.is_dir():
        states = replace(states_of(recording), placeholders=workspace.secrets.placeholders)
        file.touch(mode=0o600)
        file.write_bytes(save(states))


def forget(cluster: str) -> None:
    """Forget what is up, because a removal or an update begins."""
    _file(cluster).unlink(missing_ok=True)


def last_up(workspace: Workspace) -> States | None:
    """The resources that the last `up` brought up, None if it failed or nothing is up."""
    try:
        return load(_file(workspace.cluster).read_bytes())
    except (OSError, ValueError):
        return None
