"""Where the Pulumi CLI works for a stack: its environment, and the live cluster behind it where one can be asked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.live import LiveCluster

if TYPE_CHECKING:
    from cli.kubectl import Kubectl
    from cli.workspace import Workspace
    from rehearsal.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class EngineTarget:
    """The environment for `pulumi`, and the cluster: `simulated` its handle, `live` None where no context is known."""

    environment: Mapping[str, str]
    live: LiveCluster | None
    simulated: Cluster | None = None
    context: str | None = None


def engine_target(workspace: Workspace, context: str | None = None) -> EngineTarget:
    """The target of `workspace`; a simulated cluster is started. `context` names one of the user's kubeconfig."""
    from cli.kubectl import Kubectl
    from components.platforms.spec import ExistingCluster

    if workspace.simulated:
        return _simulated(workspace)
    cluster = workspace.settings.cluster
    chosen = context or (cluster.context if isinstance(cluster, ExistingCluster) else None)
    if shutil.which("kubectl") is None:
        return EngineTarget(environment=os.environ, live=None, context=chosen)
    kubectl = Kubectl(chosen) if chosen is not None else created_cluster(workspace.stack)
    return EngineTarget(environment=os.environ, live=None if kubectl is None else LiveCluster(kubectl.get), context=chosen)


def created_cluster(stack: str) -> Kubectl | None:
    """The cluster that an EKS stack made: its kubeconfig is in the state of the Kubernetes provider, and contains no secret.

    None before the first update, and where the cluster does not answer: the update itself says why.
    """
    from cli.errors import CommandError
    from cli.kubectl import Kubectl
    from cli.pulumi_cli import answer

    try:
        deployment = json.loads(answer(["stack", "export", "--stack", stack], os.environ)).get("deployment") or {}
        for each in deployment.get("resources", ()):
            text = each.get("inputs", {}).get("kubeconfig") if each["type"] == "pulumi:providers:kubernetes" else None
            if isinstance(text, str) and text.startswith("{"):
                kubectl = Kubectl(json.loads(text)["current-context"], text)
                kubectl.get("/version")
                return kubectl
    except CommandError:
        return None
    return None


def _simulated(workspace: Workspace) -> EngineTarget:
    from cli.progress import ProgressView
    from cli.pulumi_cli import answer, beside
    from cli.screen import progress
    from rehearsal.cluster import start

    with ProgressView(progress()) as view:
        cluster = start(workspace.stack, view.step)
    environment = beside(cluster)
    answer(["stack", "select", "--create", workspace.stack], environment)
    return EngineTarget(environment=environment, live=LiveCluster(cluster.get), simulated=cluster)
