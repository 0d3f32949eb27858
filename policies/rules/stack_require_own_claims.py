"""Each replica claims its own devices."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import pods_of
from policies.subjects.workloads import copies_of


def _check(stack: Stack, _: Parameters) -> Findings:
    claimed: set[tuple[str, str]] = set()
    for pod in pods_of(stack):
        with stack.doubts:
            for reference in pod.at("resourceClaims").each():
                claim = reference.at("resourceClaimName")
                if not claim.text():
                    continue
                named = (pod.resource.at("metadata", "namespace").text(), claim.text())
                if named in claimed or copies_of(pod) > 1:
                    yield found(claim, "is shared by several pods", urn=pod.resource.urn)
                claimed.add(named)


RULE = StackRule(
    id="stack-require-own-claims",
    title="Each replica claims its own devices",
    severity=Severity.HIGH,
    refs=("inference", "Kubernetes: Dynamic Resource Allocation"),
    why=(
        "A ResourceClaim is one set of devices. All pods that use it run on one node and share the same accelerators, and the "
        "second server runs out of memory"
    ),
    remedy="name a ResourceClaimTemplate in resourceClaimTemplateName, which creates one claim per pod",
    check=_check,
)
