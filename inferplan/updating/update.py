"""Updates of a stack: the engine, its options, its target, and what is checked before anything
changes.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from inferplan.documents.errors import InvalidStack
from inferplan.errors import OperationError, RequestError
from inferplan.kube.objects import label
from inferplan.policies.engine.report import Report
from inferplan.progress import Notice, Progress, silent
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.secrets import passphrase_of
from inferplan.rehearsal.cluster import Cluster
from inferplan.stackfile.public_examples import placeholders, publicity, rejection
from inferplan.stackfile.reader import PROJECT, SECRET_KEYS
from inferplan.updating import pulumi_cli
from inferplan.updating.containers import containers_of
from inferplan.updating.preflight import check_operators, check_rights
from inferplan.workspace.declared import declared_keys
from inferplan.workspace.file_backend import discard_cut_attributes, is_recorded
from inferplan.workspace.kubectl import Kubectl
from inferplan.workspace.live import LiveCluster, ObjectKey
from inferplan.workspace.project import child_environment, project_name
from inferplan.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    """The options of an update. `refresh` None leaves the choice to Pulumi.yaml. Pulumi prints to
    the descriptor `output` (2 is standard error).
    """

    yes: bool = False
    refresh: bool | None = None
    targets: tuple[str, ...] = ()
    keep_namespace: bool = False
    output: int | None = None

    def pulumi_arguments(self) -> list[str]:
        refresh = [] if self.refresh is None else [f"--refresh={str(self.refresh).lower()}"]
        return [*refresh, *(f"--target={each}" for each in self.targets)]

    def check_confirmation(self, command: str) -> None:
        if not self.yes and not sys.stdin.isatty():
            raise RequestError(
                "Cannot prompt for confirmation: stdin is not a terminal. Nothing was changed. Add"
                f" --yes to run it without questions: {command} --yes"
            )

    def check_rehearsal(self) -> None:
        if self.targets:
            raise RequestError(
                f"--target {self.targets[0]}: the rehearsal always applies the whole stack. Leave"
                " --target out, or use --engine pulumi."
            )
        if self.refresh is False:
            raise RequestError(
                "--no-refresh: the rehearsal always compares with the live cluster. Leave the"
                " option out."
            )


@dataclass(frozen=True, kw_only=True)
class UpdateTarget:
    """The environment of `pulumi`, and the cluster to update. `live` is None if no cluster can be
    read; `patch_volume` sends a merge patch.
    """

    environment: Mapping[str, str]
    live: LiveCluster | None
    patch_volume: Callable[[str, Mapping[str, Any]], None] | None = None
    delete: Callable[[str], None] | None = None
    """Sends DELETE of an API path."""
    simulated: Cluster | None = None
    context: str | None = None
    cut: tuple[str, ...] = ()
    """A sentence for each file that a killed Pulumi cut off and that a dry run keeps."""


def update_target(
    workspace: Workspace,
    context: str | None = None,
    *,
    step: Progress = silent,
    dry_run: bool = False,
) -> UpdateTarget:
    """The target of `workspace`. A simulated cluster is started. `context` is one of the user's
    kubeconfig. Files that a killed Pulumi cut off are deleted, unless in a `dry_run`.
    """
    if workspace.simulated:
        return _simulated(workspace, step, dry_run=dry_run)
    environment = child_environment()
    lines = discard_cut_attributes(workspace.root, environment, keep=dry_run)
    context = context or workspace.context
    target = _real(_kubectl(workspace.stack, context), context)
    return _with_cut(target, lines, step, dry_run=dry_run)


def _with_cut(
    target: UpdateTarget, lines: list[str], step: Progress, *, dry_run: bool
) -> UpdateTarget:
    """`target` with the sentences about cut files, which are printed if the files are deleted."""
    for line in () if dry_run else lines:
        step(Notice(line))
    return replace(target, cut=tuple(lines) if dry_run else ())


def _real(kubectl: Kubectl | None, context: str | None) -> UpdateTarget:
    if kubectl is None:
        return UpdateTarget(environment=child_environment(), live=None, context=context)
    patch, live = partial(kubectl.patch, "pv"), LiveCluster(kubectl.get)
    return UpdateTarget(
        environment=child_environment(),
        live=live,
        patch_volume=patch,
        delete=kubectl.delete,
        context=context,
    )


def real_target(stack: str, context: str | None) -> UpdateTarget:
    """The cluster of `context`, or without one the cluster that the stack created. Without either,
    or kubectl, it cannot be read.
    """
    return _real(_kubectl(stack, context), context)


def _kubectl(stack: str, context: str | None) -> Kubectl | None:
    if shutil.which("kubectl") is None:
        return None
    return created_cluster(stack) if context is None else Kubectl(context)


def created_cluster(stack: str) -> Kubectl | None:
    """The cluster that an EKS stack created, by the kubeconfig in its state, which has no secret;
    None if it does not answer.
    """
    try:
        deployment = pulumi_cli.state_of(stack, child_environment()).get("deployment") or {}
        for each in deployment.get("resources", ()):
            text = (
                each.get("inputs", {}).get("kubeconfig")
                if each["type"] == "pulumi:providers:kubernetes"
                else None
            )
            if isinstance(text, str) and text.startswith("{"):
                kubectl = Kubectl(json.loads(text)["current-context"], text)
                kubectl.get("/version")
                return kubectl
    except (OperationError, ValueError):
        return None
    return None


def _simulated(workspace: Workspace, step: Progress, *, dry_run: bool) -> UpdateTarget:
    from inferplan.workspace.simulated_cluster import own_cluster

    _check_passphrase(workspace)
    cluster = own_cluster(workspace, step)
    environment = pulumi_cli.simulated_environment(cluster)
    lines = discard_cut_attributes(workspace.root, environment, keep=dry_run)
    if not is_recorded(
        environment["PULUMI_BACKEND_URL"], project_name(workspace.root), workspace.stack
    ):
        pulumi_cli.answer(["stack", "select", "--create", workspace.stack], environment)
    return _with_cut(simulated_target(cluster), lines, step, dry_run=dry_run)


def simulated_target(cluster: Cluster) -> UpdateTarget:
    return UpdateTarget(
        environment=pulumi_cli.simulated_environment(cluster),
        live=LiveCluster(cluster.get),
        patch_volume=partial(patch_simulated_volume, cluster),
        delete=partial(_delete_simulated, cluster),
        simulated=cluster,
    )


def _check_passphrase(workspace: Workspace) -> None:
    if (
        workspace.file.secrets_provider not in (None, "", "passphrase")
        or passphrase_of() is not None
    ):
        return
    raise OperationError(
        f"{workspace.file.shown_path}: Pulumi needs the passphrase of the stack's secrets, and"
        " neither PULUMI_CONFIG_PASSPHRASE nor PULUMI_CONFIG_PASSPHRASE_FILE is set. Nothing was"
        " changed. Set one of them, or add --engine rehearsal"
    )


def patch_simulated_volume(cluster: Cluster, name: str, patch: Mapping[str, Any]) -> None:
    with closing(cluster.api()) as api:
        api.request(
            "PATCH",
            f"/api/v1/persistentvolumes/{name}",
            patch,
            media="application/merge-patch+json",
        )


def _delete_simulated(cluster: Cluster, path: str) -> None:
    with closing(cluster.api()) as api:
        api.request("DELETE", path)


def update(
    workspace: Workspace,
    target: UpdateTarget,
    recording: Recording,
    options: UpdateOptions,
    say: Callable[[str], None],
    exported: Mapping[str, Any] | None = None,
) -> bool:
    """Run `pulumi up`, and delete the namespaces that the stack leaves if nothing of others is in
    them. `exported` is the state if it was just read. Returns False if no resource changed. Raises
    OperationError.
    """
    settings, declared = workspace.settings, declared_keys(recording, workspace.settings.namespace)
    containers = containers_of(
        workspace.stack,
        target.environment,
        target.live,
        target.delete,
        kept=options.keep_namespace,
        exported=exported,
    )
    adopted = (
        [ObjectKey("v1", "Namespace", "", settings.namespace)] if settings.adopt_namespace else []
    )
    undeclared = containers.leaving(declared)
    leaving = [each for each in undeclared if each not in adopted]
    if not options.targets:
        containers.check(leaving, f"inferplan up {workspace.typed}")
    containers.protect(undeclared)
    containers.remove_leftovers(declared, say)
    changed = pulumi_cli.up(
        workspace,
        options.pulumi_arguments(),
        target.environment,
        yes=options.yes,
        output=options.output,
    )
    containers.remove(leaving, say)
    return changed


def check_target(workspace: Workspace, target: UpdateTarget, recording: Recording) -> None:
    if target.live is None:
        return
    if workspace.settings.adopt_namespace:
        _check_adopted(workspace, target.live)
    objects = declared_keys(recording, workspace.settings.namespace)
    check_operators(objects, target.live, stack=workspace.typed, simulated=workspace.simulated)
    if target.context is not None:
        check_rights(objects, target.live, target.context, stack=workspace.typed)


def _check_adopted(workspace: Workspace, live: LiveCluster) -> None:
    name = workspace.settings.namespace
    if live.find(ObjectKey("v1", "Namespace", "", name)) is None:
        raise OperationError(
            f"Namespace {name} does not exist, and adoptNamespace says that it does. Nothing was"
            f" changed. Create it: kubectl create namespace {name}, or remove adoptNamespace from"
            f" {workspace.file.shown_path}"
        )


def lacking_labels(recording: Recording, live: LiveCluster) -> Iterator[str]:
    """A sentence for each adopted namespace whose labels are not those that the stack would set."""
    for each in recording:
        spec = each.inputs.get("spec") if each.type.startswith("inferplan:namespace:") else None
        if isinstance(spec, Mapping) and spec.get("adopted"):
            namespace = live.find(ObjectKey("v1", "Namespace", "", spec["name"])) or {
                "metadata": {}
            }
            lacking = [
                f"{key}={value}"
                for key, value in spec["labels"].items()
                if label(namespace, key) != value
            ]
            if lacking:
                command = f"kubectl label namespace {spec['name']} --overwrite {' '.join(lacking)}"
                yield (
                    f"the stack changes no label of the adopted namespace {spec['name']}; if its"
                    f" other pods allow it, run: {command}"
                )


def violation_error(report: Report) -> OperationError:
    count = len(report.violations) + len(report.expired)
    return OperationError(
        f"{report.stack} has {count} policy violation{'' if count == 1 else 's'}. Nothing was"
        f" applied. Fix the violations, or add exemptions to policies/stacks/{report.stack}.json."
    )


def check_examples(workspace: Workspace) -> None:
    """Raise OperationError for a real stack with keys that anyone can derive, InvalidStack for
    values of the examples.
    """
    if workspace.simulated:
        return
    passphrase, _ = passphrase_of() or (None, "")
    for key in SECRET_KEYS:
        if why := publicity(
            workspace.secrets.values.get(f"{PROJECT}:{key}", ""),
            workspace.file.encryption_salt,
            passphrase,
        ):
            raise OperationError(
                f"{workspace.file.shown_path}: {key}: {rejection(why, workspace.stack, key)}"
            )
    if examples := placeholders(workspace.file, workspace.settings):
        raise InvalidStack(workspace.file.shown_path, examples)
