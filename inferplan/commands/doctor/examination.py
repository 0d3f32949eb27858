"""The checks of `inferplan doctor`, and the choice of those that apply to a stack."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

from inferplan.commands.doctor.addons import check_network_policies, check_scaling
from inferplan.commands.doctor.cluster import ExaminedCluster, permission_aware
from inferplan.commands.doctor.findings import Check, Finding, error, ok, run_checks, unknown
from inferplan.commands.doctor.nodes import (
    check_devices,
    check_drivers,
    check_labels,
    check_room,
    check_sizes,
    check_taints,
)
from inferplan.commands.doctor.objects import (
    check_ingress,
    check_operators,
    check_quotas,
    check_rights,
    check_runtime_classes,
    check_secrets,
    check_storage,
)
from inferplan.errors import OperationError, RequestError
from inferplan.pulumi_engine.recording import Recording
from inferplan.workspace.kubectl import Kubectl, proxy_socket, send
from inferplan.workspace.live import Get, LiveCluster
from inferplan.workspace.workspace import Workspace

CLUSTER_CHECKS: Final[dict[str, Check[ExaminedCluster]]] = {
    "operators": check_operators,
    "node labels": check_labels,
    "node taints": check_taints,
    "devices": check_devices,
    "drivers": check_drivers,
    "node sizes": check_sizes,
    "node room": check_room,
    "runtime classes": check_runtime_classes,
    "ingress": check_ingress,
    "storage": check_storage,
    "network policies": check_network_policies,
    "scaling": check_scaling,
    "secrets": check_secrets,
    "quotas": check_quotas,
    "rights": check_rights,
}


def examine(workspace: Workspace, context: str | None = None) -> list[Finding]:
    """Return what the cloud and the cluster lack for the stack of `workspace`. `context` is one of
    the user's kubeconfig. Changes nothing.
    """
    recording = workspace.record()
    account: list[Finding] = []
    if workspace.settings.cluster.cloud is not None:
        from inferplan.commands.doctor.aws.checks import examine_account

        account = examine_account(workspace, recording)
    return [*account, *_cluster(workspace, recording, context or workspace.context)]


@contextmanager
def _reader(kubectl: Kubectl) -> Iterator[Get]:
    """`get` of `kubectl`, through a proxy if one starts; after an error kubectl asks again and
    explains it.
    """
    with ExitStack() as stack:
        try:
            socket = stack.enter_context(proxy_socket(kubectl))
        except OperationError:
            yield kubectl.get
            return

        def get(path: str) -> Mapping[str, Any]:
            with suppress(OSError, HTTPException, ValueError):
                status, content = send(socket, "GET", path)
                if status == HTTPStatus.OK:
                    return json.loads(content)
            return kubectl.get(path)

        yield get


def policy(workspace: Workspace) -> str:
    from inferplan.commands.doctor.aws.checks import stack_policy

    document = stack_policy(workspace, workspace.record())
    if document is None:
        raise RequestError(
            f"--policy: {workspace.typed} calls no cloud, so it needs no policy. Leave the"
            " option out"
        )
    return document


def boundary(workspace: Workspace) -> str:
    from inferplan.commands.doctor.aws.permissions import boundary_json

    if workspace.settings.cluster.cloud is None:
        raise RequestError(
            f"--boundary: {workspace.typed} calls no cloud, so it creates no roles. Leave the"
            " option out"
        )
    return boundary_json()


def _without_context(workspace: Workspace) -> Finding:
    cluster, repeat = workspace.settings.cluster, f"inferplan doctor {workspace.typed} --context"
    if cluster.is_created:
        return unknown(
            "not asked: the cluster does not exist before the first update. Once it exists:"
            f" {repeat} NAME",
            check="cluster",
        )
    command = cluster.context_command
    remedy = (
        f"{command} && {repeat} {getattr(cluster, 'name', '')}" if command else f"{repeat} NAME"
    )
    return unknown(
        "not asked: the stack file names no context of a kubeconfig", remedy, check="cluster"
    )


def _cluster(workspace: Workspace, recording: Recording, context: str | None) -> list[Finding]:
    if workspace.simulated:
        return [
            ok(
                "the stack runs on the simulated cluster, which needs no preparation",
                check="cluster",
            )
        ]
    if context is None:
        return [_without_context(workspace)]
    kubectl = f"kubectl --context {context}"
    with _reader(Kubectl(context)) as ask:
        get = permission_aware(ask, kubectl)
        try:
            version = get("/version")["gitVersion"]
        except OperationError as failed:
            return [error(str(failed), f"{kubectl} get --raw /version", check="cluster")]
        cluster = ExaminedCluster(
            workspace.settings, recording, LiveCluster(get), context, workspace.typed
        )
        return run_checks(
            {
                "cluster": lambda _: [ok(f"context {context} answers, Kubernetes {version}")],
                **CLUSTER_CHECKS,
            },
            cluster,
        )
