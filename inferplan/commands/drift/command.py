"""`inferplan drift STACK`: what changed on the cluster since the last update, by whom, and what to
type.
"""

from contextlib import AbstractContextManager
from typing import Annotated

from inferplan.commands.arguments import Context, Stack, json_option
from inferplan.commands.screen import show, show_json
from inferplan.errors import OperationError, UnsettledError
from inferplan.rehearsal.cluster import start, status
from inferplan.updating.drift.cluster import ComparedCluster, behind_kubectl, simulated
from inferplan.updating.drift.drift import drift
from inferplan.updating.drift.finding import Words, document, lines
from inferplan.updating.update import created_cluster
from inferplan.workspace.kubectl import Kubectl
from inferplan.workspace.workspace import Workspace, open_workspace


def command(
    stack: Stack, context: Context = None, as_json: Annotated[bool, json_option()] = False
) -> None:
    """Compare the live objects of STACK with what its file declares; exit code 3 if they differ. It
    changes nothing.
    """
    workspace = open_workspace(stack)
    recording = workspace.record()
    with _cluster(workspace, context) as cluster:
        result = drift(
            recording,
            workspace.settings.namespace,
            cluster,
            secrets_known=not workspace.secrets.placeholders,
        )
    typed = workspace.rehearsal_arguments if cluster.simulated else stack
    words = Words(
        command=f"inferplan up {typed}", file=workspace.file.shown_path, kubectl=cluster.kubectl
    )
    if as_json:
        show_json(document(result, words))
    else:
        show("\n".join(lines(result, words)))
    if result.findings:
        raise UnsettledError(
            f"{workspace.stack}: {len(result.findings)} differences between the cluster and"
            f" {workspace.file.shown_path}"
        )
    if result.failures:
        raise OperationError(
            f"{workspace.stack}: not every object could be compared. Repeat the command once the"
            f" cluster answers: {result.failures[0]}"
        )


def _cluster(workspace: Workspace, context: str | None) -> AbstractContextManager[ComparedCluster]:
    """The cluster of `context`, else a running simulated cluster, else the cluster of the stack
    file.
    """
    name = context or workspace.context
    if context is None and status(workspace.cluster) == "running":
        return simulated(start(workspace.cluster))
    kubectl = (
        Kubectl(name) if name else None if workspace.simulated else created_cluster(workspace.stack)
    )
    if kubectl is None:
        raise OperationError(
            f"{workspace.stack} has no cluster to compare with. Bring it up with: inferplan up"
            f" {workspace.typed}, or name a context of your kubeconfig: inferplan drift"
            f" {workspace.typed} --context NAME"
        )
    return behind_kubectl(kubectl)
