"""Every powerful object is of a kind that the rules can check."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Finding, Findings, Parameter, Parameters, Severity, StackRule
from policies.subjects.powers import power_of


def _check(stack: Stack, given: Parameters) -> Findings:
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


RULE = StackRule(
    id="stack-disallow-unseen-objects",
    title="Every powerful object is of a kind that the rules can check",
    severity=Severity.HIGH,
    refs=("inference",),
    why=(
        "Rules cannot block what they cannot read. A Release, a DeploymentPatch or an object of another controller could "
        "contain a privileged pod"
    ),
    remedy=(
        "render charts with kubernetes.helm.v4.Chart, declare the whole object, use the aws provider; or list the kind under "
        "parameters.stack-disallow-unseen-objects.kinds"
    ),
    check=_check,
    parameters={
        "kinds": Parameter(
            default=[],
            description="Kinds that are reviewed elsewhere, for example `kubernetes:helm.sh:Release`",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
