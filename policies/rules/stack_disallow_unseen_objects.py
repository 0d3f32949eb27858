"""Everything that runs is where the rules can see it."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Finding, Findings, Parameter, Parameters, Severity, StackRule
from policies.subjects.powers import power_of


def _check(stack: Stack, given: Parameters) -> Findings:
    for each in stack:
        if each.kind in given["kinds"]:
            continue
        if each.kind == "kubernetes:helm.sh:Release":
            yield Finding("", "is a chart that is rendered where no rule sees its objects", each.urn)
        elif each.kind.startswith("kubernetes:") and each.kind.endswith("Patch"):
            yield Finding("", "changes an object that no rule sees as a whole", each.urn)
        elif each.kind.startswith("aws-native:"):
            yield Finding("", "is of a provider that no rule looks at", each.urn)
        else:
            with stack.doubts:
                if power := power_of(each):
                    yield Finding("", f"{power}, and no rule judges it", each.urn)


RULE = StackRule(
    id="stack-disallow-unseen-objects",
    title="What carries power is where the rules can judge it",
    severity=Severity.HIGH,
    refs=("inference",),
    why="What a rule cannot look at it cannot refuse: a privileged pod in a Release, a DeploymentPatch or another controller's object would pass every one of them",
    remedy="render charts with kubernetes.helm.v4.Chart, declare the object whole, use the aws provider; or list the kind under parameters.stack-disallow-unseen-objects.kinds",
    check=_check,
    parameters={
        "kinds": Parameter(
            default=[],
            description="Kinds that somebody else looks at, as `kubernetes:helm.sh:Release`",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
