"""Everything that runs is where the rules can see it."""

from __future__ import annotations

from typing import Any

from policies.engine.fields import UNKNOWN
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Finding, Findings, Parameter, Parameters, Severity, StackRule
from policies.subjects.pods import PODS


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
        elif each.kind.startswith("kubernetes:") and each.kind not in PODS.kinds and _holds_containers(each):
            yield Finding("", "holds containers where no rule of pods looks", each.urn)


def _holds_containers(resource: Resource) -> bool:
    waiting: list[Any] = [dict(resource.inputs)]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            listed = here.get("containers")
            # A definition of a kind describes containers too, as maps of a schema.
            if listed is UNKNOWN or (isinstance(listed, list) and any(isinstance(one, dict) and "image" in one for one in listed)):
                return True
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here
    return False


RULE = StackRule(
    id="stack-disallow-unseen-objects",
    title="Everything that runs is where the rules can see it",
    severity=Severity.HIGH,
    refs=("inference",),
    why="What a rule cannot look at it cannot refuse: a privileged pod in a Release or a DeploymentPatch would pass every one of them",
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
