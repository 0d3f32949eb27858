"""One provider serves the whole cluster."""

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
                yield Finding("", "goes to the default provider", each.urn)
            used.setdefault(provider, each)
    if len(used) > given["providers"]:
        last = used[sorted(used)[-1]]
        yield Finding("", "goes to another provider than the rest of the stack", last.urn)


RULE = StackRule(
    id="stack-disallow-several-providers",
    title="One provider serves the whole cluster",
    severity=Severity.HIGH,
    refs=("inference",),
    why="With the default provider beside, half the stack goes to whatever cluster kubectl points at",
    remedy="pass opts=ResourceOptions(provider=...) with the one kubernetes Provider to every resource",
    check=_check,
    parameters={
        "providers": Parameter(
            default=1, description="How many clusters the stack reaches on purpose", schema={"type": "number", "minimum": 1}
        )
    },
)
