"""The simulated cluster, as commands use it: its programs, its life, its owner, and the events of
its start and of an update.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from inferplan import progress
from inferplan.errors import OperationError
from inferplan.kube.contents import CONTAINERS
from inferplan.kube.names import cluster_of
from inferplan.rehearsal.cluster import Cluster, clusters, start
from inferplan.rehearsal.cluster.record import cluster_directory, read_record
from inferplan.workspace.project import project_name, stack_files

if TYPE_CHECKING:
    from inferplan.workspace.workspace import Workspace


def own_cluster(workspace: Workspace, step: progress.Progress = progress.silent) -> Cluster:
    """The running cluster of the stack. Raises OperationError if an earlier version put objects of
    another project into it.
    """
    if others := _projects_in(workspace.cluster) - {project_name(workspace.root)}:
        owners = " and ".join(f"project {each}, stack {workspace.stack}" for each in sorted(others))
        raise OperationError(
            f"The simulated cluster {workspace.cluster} has objects of {owners}: an earlier version"
            " of inferplan used one cluster for all projects. Nothing was changed. Remove it with:"
            f" inferplan down {workspace.typed} --engine rehearsal --cluster"
        )
    if old := old_cluster(project_name(workspace.root), workspace.stack):
        remedy = f"inferplan down {workspace.typed} --engine rehearsal --cluster removes it"
        step(
            progress.Notice(
                f"the simulated cluster {old} of an earlier version belongs to this project too and"
                f" is not used; {remedy}"
            )
        )
    prefix = cluster_of(project_name(workspace.root), "")
    names = {each.removeprefix(prefix) for each in clusters() if prefix and each.startswith(prefix)}
    for name in sorted(names - stack_files(workspace.root).keys() - {workspace.stack}):
        step(
            progress.Notice(
                f"the simulated cluster {prefix}{name} belongs to no stack of this project. If"
                f" {name} was renamed or removed, delete its cluster: inferplan down {name} --engine"
                " rehearsal --cluster --yes"
            )
        )
    return start(workspace.cluster, step)


def old_cluster(project: str, stack: str) -> str:
    """The cluster in which an earlier version of inferplan rehearsed the stack, "" if there is none
    that `project` used alone.
    """
    return (
        stack
        if project != "inferplan" and stack in clusters() and _projects_in(stack) == {project}
        else ""
    )


def rehearsed_objects(cluster: str) -> int:
    """The number of objects that rehearsals have on the simulated `cluster`, which need not run."""
    from inferplan.rehearsal.apply.journal import load

    directory = cluster_directory(cluster)
    record = read_record(directory)
    return 0 if record is None else len(load(directory, record.uid)[0])


def namespaces_of(cluster: Cluster) -> tuple[str, ...]:
    """The names of the namespaces and definitions that the rehearsals of `cluster` created."""
    from inferplan.rehearsal.apply.run import applied

    return tuple(each.name for each in applied(cluster) if each.kind in CONTAINERS)


def _projects_in(cluster: str) -> set[str]:
    """The projects whose resources the journal of `cluster`, or the state of Pulumi in it, names."""
    directory = cluster_directory(cluster)
    journal = directory / "applied.jsonl"
    lines = journal.read_text(encoding="utf-8", errors="replace") if journal.is_file() else ""
    stacks = (directory / "pulumi").glob(".pulumi/stacks/*/*.json")
    return {
        *re.findall(r'"urn":"urn:pulumi:[^:"]*::([^:"]+)::', lines),
        *(each.parent.name for each in stacks),
    }
