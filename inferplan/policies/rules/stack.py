"""The stack as a whole: providers, kinds and protection."""

import re
from collections.abc import Mapping
from functools import cache
from posixpath import normpath

from inferplan.kube.paths import parse, text_of
from inferplan.policies.engine.fields import UnknownFieldError
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import (
    Parameters,
    Violation,
    Violations,
    stack_rule,
    violation,
)
from inferplan.policies.subjects.pods import PODS
from inferplan.policies.subjects.structure import holds_settings_of_pods
from inferplan.policies.subjects.tables import group_of
from inferplan.tables import table

# Components of the SDK that only group objects. Each object has its own provider.
GROUPS = (
    "kubernetes:provider",
    "kubernetes:yaml",
    "kubernetes:kustomize",
    "kubernetes:helm.sh/v4:Chart",
    "kubernetes:helm.sh/v3:Chart",
)
FILE_SYSTEM, BACKUP_POLICY = "aws:efs:FileSystem", "aws:efs:BackupPolicy"
KINDS_WITH_DATA = (
    "aws:s3:Bucket",
    "aws:s3:BucketV2",
    FILE_SYSTEM,
    "aws:fsx:LustreFileSystem",
    "aws:eks:Cluster",
    "aws:kms:Key",
)
# A node with the label of the control plane gets the pods of the control plane, with their keys.
_NODE, _CONTROL_PLANE = (
    "kubernetes:core:Node",
    ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"),
)
# Folders of the operating system and of the kubelet. Disks for volumes are mounted elsewhere, for
# example below /mnt or /data.
_SYSTEM_PATHS = re.compile(
    r"/+(\Z|(bin|boot|dev|etc|home|host|lib\w*|opt/cni|proc|root|run|sbin|sys|tmp|usr)(/|\Z)|var(/(lib(/(kubelet|docker|containerd|containers|etcd|rancher|cni|cloud)|\Z)|run|log)|\Z))"
)
_OWN_RULES = frozenset(
    [
        "kubernetes:core:PersistentVolume",
        "kubernetes:apiextensions.k8s.io:CustomResourceDefinition",
        "kubernetes:kyverno.io:ClusterPolicy",
        "kubernetes:kyverno.io:Policy",
    ]
)


@stack_rule
def stack_disallow_several_providers(stack: Stack, parameters: Parameters) -> Violations:
    providers: dict[object, Resource] = {}
    for each in stack:
        if each.type.startswith("kubernetes:") and not each.type.startswith(GROUPS):
            provider = each.provider.partition("::ID::")[0]
            if not provider or "::default" in provider:
                yield violation(each.root, "uses the default provider")
            providers.setdefault(_cluster_of(stack, provider), each)
    if len(providers) > parameters["providers"]:
        last = max(providers.values(), key=lambda each: each.provider)
        yield violation(last.root, "uses a different provider than the rest of the stack")


def _cluster_of(stack: Stack, provider: str) -> object:
    """Return the sources of the provider's kubeconfig, which identify its cluster; the provider
    itself if they are not known.
    """
    declared = stack.by_urn(provider)
    return (declared and declared.property_dependencies.get("kubeconfig")) or provider


@stack_rule
def stack_disallow_unseen_objects(stack: Stack, parameters: Parameters) -> Violations:
    for each in stack:
        expiry = parameters.accepted.get(each.type, "")
        if expiry >= parameters.today:
            continue
        with stack.unreadable:
            if problem := _problem_of(each):
                yield violation(
                    each.root,
                    (
                        f"{problem}; its entry in acceptedTypes expired on {expiry}"
                        if expiry
                        else problem
                    ),
                )


@stack_rule
def stack_disallow_ignored_changes(stack: Stack, _: Parameters) -> Violations:
    for each in stack:
        for ignored in each.ignore_changes:
            path = text_of(parse(ignored))
            if any(
                re.fullmatch(row["type"], each.type) and re.fullmatch(row["path"], path)
                for row in table("policies/rules/ignored_fields.toml")["field"]
            ):
                yield Violation(
                    path, "is ignored, so no later change of it reaches the resource", each.urn
                )


@stack_rule
def stack_require_protection(stack: Stack, _: Parameters) -> Violations:
    unprotected = (
        each for each in stack.of(*KINDS_WITH_DATA) if not (each.protect or each.retain_on_delete)
    )
    yield from (violation(each.root, "is not protected") for each in unprotected)
    # A file system that may be deleted needs no backup.
    if all(each.protect for each in stack.of(FILE_SYSTEM)):
        for each in stack.of(BACKUP_POLICY):
            with stack.unreadable:
                if each.at("backupPolicy", "status").text().startswith("DISABL"):
                    yield violation(each.root, "leaves the files without a backup")


def _problem_of(resource: Resource) -> str:
    """Why no rule can judge a resource, "" if the rules can, or if it has no power. Raises
    FieldError.
    """
    if resource.kind == "kubernetes:helm.sh:Release":
        return "is a chart whose objects no rule can read"
    if resource.kind.startswith("kubernetes:") and resource.kind.endswith("Patch"):
        return "changes an object that no rule can read as a whole"
    if power := power_of(resource):
        return f"{power}, and no rule checks it"
    return "" if _is_known(resource) else "is of a type that no rule knows"


def _entry(table: Mapping[str, str], resource: Resource) -> str:
    """The text in `table` for the type, the kind, the group or the package of a resource, ""
    without one.
    """
    package = resource.type.partition(":")[0]
    names = (resource.type, resource.kind, group_of(resource.kind), f"{package}:*")
    return next((table[each] for each in names if each in table), "")


def _is_known(resource: Resource) -> bool:
    return (
        not resource.custom
        or resource.kind in _checked_kinds()
        or bool(
            _entry(table("policies/rules/unseen_kinds.toml")["known"], resource)
            or _is_checked(resource)
        )
    )


@cache
def _checked_kinds() -> frozenset[str]:
    from inferplan.policies.engine.registry import all_rules

    return frozenset(
        kind for rule in all_rules().values() if rule.subject for kind in rule.subject.kinds
    )


def power_of(resource: Resource) -> str:
    """The power of an object that no rule checks, "" if rules check it or it has none. Raises
    FieldError.
    """
    if resource.kind == _NODE:
        labels = resource.at("metadata", "labels")
        return (
            "has the label of the control plane"
            if any(not labels.at(name).absent for name in _CONTROL_PLANE)
            else ""
        )
    if resource.kind == "kubernetes:core:PersistentVolume":
        path = resource.at("spec", "local", "path").text()
        return (
            "mounts a path of the system on the node"
            if path and _SYSTEM_PATHS.match(normpath(path))
            else ""
        )
    if power := _entry(table("policies/rules/unseen_kinds.toml")["powerful"], resource):
        return power
    if (
        resource.kind.startswith("kubernetes:")
        and not _is_checked(resource)
        and holds_settings_of_pods(resource)
    ):
        return "contains pod settings that no rule checks"
    return ""


def _is_checked(resource: Resource) -> bool:
    if resource.kind in PODS.kinds or resource.kind in _OWN_RULES:
        return True
    try:
        return bool(resource.parts(PODS)) and "podSpecPatch" not in resource.outline.keys
    except UnknownFieldError:
        return True
