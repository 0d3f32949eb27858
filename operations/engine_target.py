"""Where the Pulumi CLI works for a stack: its environment, and the live cluster behind it where one can be asked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operations.live import LiveCluster
from rehearsal.progress import Progress, silent

if TYPE_CHECKING:
    from operations.kubectl import Kubectl
    from operations.workspace import Workspace
    from rehearsal.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class EngineTarget:
    """The environment for `pulumi`, and the cluster: `simulated` its handle, `live` None where no context is known."""

    environment: Mapping[str, str]
    live: LiveCluster | None
    simulated: Cluster | None = None
    context: str | None = None


def engine_target(workspace: Workspace, context: str | None = None, *, step: Progress = silent) -> EngineTarget:
    """The target of `workspace`; a simulated cluster is started. `context` names one of the user's kubeconfig."""
    from components.platforms.spec import ExistingCluster
    from operations.kubectl import Kubectl

    if workspace.simulated:
        return _simulated(workspace, step)
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
    from operations.errors import CommandError
    from operations.kubectl import Kubectl
    from operations.pulumi_cli import answer

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


def _simulated(workspace: Workspace, step: Progress) -> EngineTarget:
    from operations.pulumi_cli import answer, beside
    from rehearsal.cluster import start

    cluster = start(workspace.stack, step)
    environment = beside(cluster)
    answer(["stack", "select", "--create", workspace.stack], environment)
    return EngineTarget(environment=environment, live=LiveCluster(cluster.get), simulated=cluster)
