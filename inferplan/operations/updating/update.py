"""Updates of a stack: the engine, its options, its target, and what is checked before anything changes."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from inferplan.operations.errors import OperationError, RequestError
from inferplan.operations.kubectl import Kubectl
from inferplan.operations.live import LiveCluster
from inferplan.operations.project import child_environment
from inferplan.operations.recovery.declared import declared_keys
from inferplan.operations.recovery.file_backend import discard_cut_attributes
from inferplan.operations.updating import pulumi_cli
from inferplan.operations.updating.preflight import check_operators, check_rights
from inferplan.operations.workspace import Workspace
from inferplan.policies.engine.report import Report
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.engine.wire.recording import Recording
from inferplan.rehearsal.progress import Notice, Progress, silent
from inferplan.rehearsal.secrets import passphrase_of
from inferplan.stackfile.errors import InvalidStack
from inferplan.stackfile.public_examples import placeholders, publicity, rejection
from inferplan.stackfile.reader import PROJECT, SECRET_KEYS


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    """The options of an update. `refresh` None leaves the choice to Pulumi.yaml. Pulumi prints to the descriptor `output` (2 is standard error)."""

    yes: bool = False
    refresh: bool | None = None
    targets: tuple[str, ...] = ()
    output: int | None = None

    def pulumi_arguments(self) -> list[str]:
        refresh = [] if self.refresh is None else [f"--refresh={str(self.refresh).lower()}"]
        return [*refresh, *(f"--target={each}" for each in self.targets)]

    def check_confirmation(self, command: str) -> None:
        if not self.yes and not sys.stdin.isatty():
            raise RequestError(
                f"Cannot prompt for confirmation: stdin is not a terminal. Nothing was changed. Add --yes to run it without questions: {command} --yes"
            )

    def check_rehearsal(self) -> None:
        if self.targets:
            raise RequestError(
                f"--target {self.targets[0]}: the rehearsal always applies the whole stack. Leave --target out, or use --engine pulumi."
            )
        if self.refresh is False:
            raise RequestError("--no-refresh: the rehearsal always compares with the live cluster. Leave the option out.")


@dataclass(frozen=True, kw_only=True)
class UpdateTarget:
    """The environment of `pulumi`, and the cluster to update. `live` is None if no cluster can be read; `patch_volume` sends a merge patch."""

    environment: Mapping[str, str]
    live: LiveCluster | None
    patch_volume: Callable[[str, Mapping[str, Any]], None] | None = None
    simulated: Cluster | None = None
    context: str | None = None


def update_target(workspace: Workspace, context: str | None = None, *, step: Progress = silent) -> UpdateTarget:
    """The target of `workspace`. A simulated cluster is started. `context` is one of the user's kubeconfig."""
    if workspace.simulated:
        return _simulated(workspace, step)
    _discard_cut_attributes(workspace, child_environment(), step)
    context = context or workspace.context
    kubectl = _kubectl(workspace.stack, context)
    live, patch = (None, None) if kubectl is None else (LiveCluster(kubectl.get), partial(kubectl.patch, "pv"))
    return UpdateTarget(environment=child_environment(), live=live, patch_volume=patch, context=context)


def live_cluster(stack: str, context: str | None) -> LiveCluster | None:
    """The cluster of `context`, or without one the cluster that the stack created. None if neither is known or kubectl is missing."""
    kubectl = _kubectl(stack, context)
    return None if kubectl is None else LiveCluster(kubectl.get)


def _kubectl(stack: str, context: str | None) -> Kubectl | None:
    if shutil.which("kubectl") is None:
        return None
    return created_cluster(stack) if context is None else Kubectl(context)


def created_cluster(stack: str) -> Kubectl | None:
    """The cluster that an EKS stack created, by the kubeconfig in its state, which has no secret; None if it does not answer."""
    try:
        deployment = json.loads(pulumi_cli.answer(["stack", "export", "--stack", stack], child_environment())).get("deployment") or {}
        for each in deployment.get("resources", ()):
            text = each.get("inputs", {}).get("kubeconfig") if each["type"] == "pulumi:providers:kubernetes" else None
            if isinstance(text, str) and text.startswith("{"):
                kubectl = Kubectl(json.loads(text)["current-context"], text)
                kubectl.get("/version")
                return kubectl
    except (OperationError, ValueError):
        return None
    return None


def _simulated(workspace: Workspace, step: Progress) -> UpdateTarget:
    from inferplan.rehearsal.cluster import start

    _check_passphrase(workspace)
    cluster = start(workspace.stack, step)
    environment = pulumi_cli.simulated_environment(cluster)
    _discard_cut_attributes(workspace, environment, step)
    pulumi_cli.answer(["stack", "select", "--create", workspace.stack], environment)
    return UpdateTarget(
        environment=environment, live=LiveCluster(cluster.get), patch_volume=partial(patch_simulated_volume, cluster), simulated=cluster
    )


def _discard_cut_attributes(workspace: Workspace, environment: Mapping[str, str], step: Progress) -> None:
    for line in discard_cut_attributes(workspace.root, environment):
        step(Notice(line))


def _check_passphrase(workspace: Workspace) -> None:
    if workspace.file.secrets_provider not in (None, "", "passphrase") or passphrase_of() is not None:
        return
    own = workspace.root / ".passphrase"
    remedy = f"Run: export PULUMI_CONFIG_PASSPHRASE_FILE={shlex.quote(str(own))}" if own.is_file() else "Set one of them"
    raise OperationError(
        f"{workspace.file.shown_path}: Pulumi needs the passphrase of the stack's secrets, and neither PULUMI_CONFIG_PASSPHRASE nor "
        f"PULUMI_CONFIG_PASSPHRASE_FILE is set. Nothing was changed. {remedy}, or add --engine rehearsal"
    )


def patch_simulated_volume(cluster: Cluster, name: str, patch: Mapping[str, Any]) -> None:
    with closing(cluster.api()) as api:
        api.request("PATCH", f"/api/v1/persistentvolumes/{name}", patch, media="application/merge-patch+json")


def check_target(workspace: Workspace, target: UpdateTarget, recording: Recording) -> None:
    if target.live is None:
        return
    objects = declared_keys(recording, workspace.settings.namespace)
    check_operators(objects, target.live, stack=workspace.typed, simulated=workspace.simulated)
    if target.context is not None:
        check_rights(objects, target.live, target.context, stack=workspace.typed)


def violation_error(report: Report) -> OperationError:
    count = len(report.violations) + len(report.expired)
    return OperationError(
        f"{report.stack} has {count} policy violation{'' if count == 1 else 's'}. Nothing was applied. "
        f"Fix the violations, or add exemptions to policies/stacks/{report.stack}.json."
    )


def check_examples(workspace: Workspace) -> None:
    """Raise OperationError for a real stack with keys that anyone can derive, InvalidStack for values of the examples."""
    if workspace.simulated:
        return
    passphrase, _ = passphrase_of() or (None, "")
    for key in SECRET_KEYS:
        if why := publicity(workspace.secrets.values.get(f"{PROJECT}:{key}", ""), workspace.file.encryption_salt, passphrase):
            raise OperationError(f"{workspace.file.shown_path}: {key}: {rejection(why, workspace.stack, key)}")
    if examples := placeholders(workspace.file, workspace.settings):
        raise InvalidStack(workspace.file.shown_path, examples)
