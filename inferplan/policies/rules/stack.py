"""The stack as a whole: providers, kinds and protection."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from inferplan.policies.engine.fields import UnknownFieldError, maps_in
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Parameters, Severity, Violations, parameter, stack_rule, violation
from inferplan.policies.subjects.pods import PODS
from inferplan.policies.subjects.structure import holds_settings_of_pods

# Components of the SDK that only group objects. Each object has its own provider.
GROUPS = ("kubernetes:provider", "kubernetes:yaml", "kubernetes:kustomize", "kubernetes:helm.sh/v4:Chart", "kubernetes:helm.sh/v3:Chart")
_STARTS_NODES = {"inferplan:nodes:AutoNodePool", "inferplan:cluster:AutoModeSettings"}
KINDS_WITH_DATA = ("aws:s3:Bucket", "aws:s3:BucketV2", "aws:efs:FileSystem", "aws:eks:Cluster", "aws:kms:Key")
# A node with the label of the control plane gets the pods of the control plane, with their keys.
_NODE, _CONTROL_PLANE = "kubernetes:core:Node", ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_OWN_RULES = frozenset(["kubernetes:core:PersistentVolume", "kubernetes:apiextensions.k8s.io:CustomResourceDefinition"])


@parameter("providers", 1, "Number of Kubernetes providers that the stack may use", minimum=1)
@stack_rule(Severity.HIGH)
def stack_disallow_several_providers(stack: Stack, parameters: Parameters) -> Violations:
    """All Kubernetes resources use one provider.
    Why: Resources of the default provider go to the cluster of the current kubectl context.
    Remedy: pass opts=ResourceOptions(provider=...) with the same kubernetes Provider to every resource.
    """
    providers: dict[str, Resource] = {}
    for each in stack:
        if each.type.startswith("kubernetes:") and not each.type.startswith(GROUPS):
            provider = each.provider.partition("::ID::")[0]
            if not provider or "::default" in provider:
                yield violation(each.root, "uses the default provider")
            # What starts the nodes of EKS Auto Mode exists before the stack's own provider, which waits for nodes.
            if _STARTS_NODES.isdisjoint(each.components):
                providers.setdefault(provider, each)
    if len(providers) > parameters["providers"]:
        last = providers[max(providers)]
        yield violation(last.root, "uses a different provider than the rest of the stack")


@parameter("kinds", [], "Kinds that are reviewed elsewhere, for example `kubernetes:helm.sh:Release`")
@stack_rule(Severity.HIGH)
def stack_disallow_unseen_objects(stack: Stack, parameters: Parameters) -> Violations:
    """Every powerful object is of a kind that the rules can check.
    Why: Rules cannot block what they cannot read. A Release, a DeploymentPatch or an object of another controller could contain a
    privileged pod.
    Remedy: render charts with kubernetes.helm.v4.Chart, declare the whole object, use the aws provider; or list the kind under
    parameters.stack-disallow-unseen-objects.kinds.
    """
    for each in stack:
        if each.kind in parameters["kinds"]:
            continue
        if each.kind == "kubernetes:helm.sh:Release":
            yield violation(each.root, "is a chart whose objects no rule can read")
        elif each.kind.startswith("kubernetes:") and each.kind.endswith("Patch"):
            yield violation(each.root, "changes an object that no rule can read as a whole")
        elif each.kind.startswith("aws-native:"):
            yield violation(each.root, "belongs to a provider that no rule checks")
        else:
            with stack.unreadable:
                if power := power_of(each):
                    yield violation(each.root, f"{power}, and no rule checks it")


@stack_rule(Severity.HIGH, "inference; Security Hub: deletion protection")
def stack_require_protection(stack: Stack, _: Parameters) -> Violations:
    """Resources that hold data are protected from deletion.
    Why: A mistake in a stack file, or a destroy in the wrong shell, would delete the weights or the cluster.
    Remedy: pass opts=ResourceOptions(protect=True) or retain_on_delete=True.
    """
    unprotected = (each for each in stack.of(*KINDS_WITH_DATA) if not (each.protect or each.retain_on_delete))
    yield from (violation(each.root, "is not protected") for each in unprotected)


@cache
def _unseen_kinds() -> Mapping[str, str]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("unseen_kinds.toml").read_text(encoding="utf-8"))


def power_of(resource: Resource) -> str:
    """The power of an object that no rule checks, "" if rules check it or it has none. Raises FieldError."""
    group = f"{resource.kind.rpartition(':')[0]}:*"
    if resource.kind == _NODE:
        labels = resource.at("metadata", "labels")
        return "has the label of the control plane" if any(not labels.at(name).absent for name in _CONTROL_PLANE) else ""
    if resource.kind == "kubernetes:core:PersistentVolume":
        path = resource.at("spec", "local", "path")
        return "mounts a path on the node" if path.text() and not path.text().startswith("/mnt/") else ""
    if power := _unseen_kinds().get(resource.kind) or _unseen_kinds().get(group):
        return power
    if resource.kind.startswith("kubernetes:") and not _is_checked(resource) and holds_settings_of_pods(resource.inputs):
        return "contains pod settings that no rule checks"
    return ""


def _is_checked(resource: Resource) -> bool:
    if resource.kind in PODS.kinds or resource.kind in _OWN_RULES:
        return True
    try:
        return bool(resource.parts(PODS)) and not any("podSpecPatch" in each for each in maps_in(resource.inputs))
    except UnknownFieldError:
        return True
