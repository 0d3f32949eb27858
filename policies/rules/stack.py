"""The stack as a whole: providers, kinds and protection."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Finding, Findings, Parameter, Parameters, Severity, stack_rule
from policies.subjects.powers import power_of

# Components of the SDK that only group objects, which carry the provider themselves.
GROUPS = ("kubernetes:provider", "kubernetes:yaml", "kubernetes:kustomize", "kubernetes:helm.sh/v4:Chart", "kubernetes:helm.sh/v3:Chart")


@stack_rule(
    Severity.HIGH,
    parameters={
        "providers": Parameter(
            default=1, description="Number of Kubernetes providers that the stack may use", schema={"type": "number", "minimum": 1}
        )
    },
)
def stack_disallow_several_providers(stack: Stack, given: Parameters) -> Findings:
    """All Kubernetes resources use one provider.

    Why: Resources of the default provider go to the cluster of the current kubectl context.
    Remedy: pass opts=ResourceOptions(provider=...) with the same kubernetes Provider to every resource.
    """
    used: dict[str, Resource] = {}
    for each in stack:
        if each.type.startswith("kubernetes:") and not each.type.startswith(GROUPS):
            provider = each.provider.partition("::ID::")[0]
            if not provider or "::default" in provider:
                yield Finding("", "uses the default provider", each.urn)
            used.setdefault(provider, each)
    if len(used) > given["providers"]:
        last = used[sorted(used)[-1]]
        yield Finding("", "uses a different provider than the rest of the stack", last.urn)


@stack_rule(
    Severity.HIGH,
    parameters={
        "kinds": Parameter(
            default=[],
            description="Kinds that are reviewed elsewhere, for example `kubernetes:helm.sh:Release`",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
def stack_disallow_unseen_objects(stack: Stack, given: Parameters) -> Findings:
    """Every powerful object is of a kind that the rules can check.

    Why: Rules cannot block what they cannot read. A Release, a DeploymentPatch or an object of another controller could contain a
    privileged pod.
    Remedy: render charts with kubernetes.helm.v4.Chart, declare the whole object, use the aws provider; or list the kind under
    parameters.stack-disallow-unseen-objects.kinds.
    """
    for each in stack:
        if each.kind in given["kinds"]:
            continue
        if each.kind == "kubernetes:helm.sh:Release":
            yield Finding("", "is a chart whose objects no rule can read", each.urn)
        elif each.kind.startswith("kubernetes:") and each.kind.endswith("Patch"):
            yield Finding("", "changes an object that no rule can read as a whole", each.urn)
        elif each.kind.startswith("aws-native:"):
            yield Finding("", "belongs to a provider that no rule checks", each.urn)
        else:
            with stack.doubts:
                if power := power_of(each):
                    yield Finding("", f"{power}, and no rule checks it", each.urn)


KINDS = ("aws:s3:Bucket", "aws:s3:BucketV2", "aws:efs:FileSystem", "aws:eks:Cluster", "aws:kms:Key")


@stack_rule(Severity.HIGH, "inference", "Security Hub: deletion protection")
def stack_require_protection(stack: Stack, _: Parameters) -> Findings:
    """Resources that hold data are protected from deletion.

    Why: A mistake in a stack file, or a destroy in the wrong shell, would delete the weights or the cluster.
    Remedy: pass opts=ResourceOptions(protect=True) or retain_on_delete=True.
    """
    for each in stack.of(*KINDS):
        if not (each.protect or each.retain_on_delete):
            yield Finding("", "is not protected", each.urn)
