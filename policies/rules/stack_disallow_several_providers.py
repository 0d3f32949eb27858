"""All Kubernetes resources use one provider."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Finding, Findings, Parameter, Parameters, Severity, StackRule

# Components of the SDK that only group objects, which carry the provider themselves.
GROUPS = ("kubernetes:provider", "kubernetes:yaml", "kubernetes:kustomize", "kubernetes:helm.sh/v4:Chart", "kubernetes:helm.sh/v3:Chart")


def _check(stack: Stack, given: Parameters) -> Findings:
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


RULE = StackRule(
    id="stack-disallow-several-providers",
    title="All Kubernetes resources use one provider",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Resources of the default provider go to the cluster of the current kubectl context",
    remedy="pass opts=ResourceOptions(provider=...) with the same kubernetes Provider to every resource",
    check=_check,
    parameters={
        "providers": Parameter(
            default=1, description="Number of Kubernetes providers that the stack may use", schema={"type": "number", "minimum": 1}
        )
    },
)
