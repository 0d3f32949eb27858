"""Resources that hold data are protected from deletion."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Finding, Findings, Parameters, Severity, StackRule

KINDS = ("aws:s3:Bucket", "aws:s3:BucketV2", "aws:efs:FileSystem", "aws:eks:Cluster", "aws:kms:Key")


def _check(stack: Stack, _: Parameters) -> Findings:
    for each in stack.of(*KINDS):
        if not (each.protect or each.retain_on_delete):
            yield Finding("", "is not protected", each.urn)


RULE = StackRule(
    id="stack-require-protection",
    title="Resources that hold data are protected from deletion",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "Security Hub: deletion protection",
    ),
    why="A mistake in a stack file, or a destroy in the wrong shell, would delete the weights or the cluster",
    remedy="pass opts=ResourceOptions(protect=True) or retain_on_delete=True",
    check=_check,
)
