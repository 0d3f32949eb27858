"""Namespaces with workloads deny traffic by default."""

from __future__ import annotations

from policies.engine.fields import matching
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import serving_workloads
from policies.subjects.isolation import NETWORK_POLICY, isolates
from policies.subjects.placement import same_namespace


def _check(stack: Stack, _: Parameters) -> Findings:
    told: set[str] = set()
    for workload in serving_workloads(stack):
        with stack.doubts:
            namespace = workload.at("metadata", "namespace")
            if namespace.text() not in told:
                told.add(namespace.text())
                for side in ("Ingress", "Egress"):
                    with stack.doubts:
                        if not _denied(stack, workload, side):
                            yield found(namespace, "has no default-deny network policy", urn=workload.urn)


def _denied(stack: Stack, workload: Resource, side: str) -> bool:
    """True if a policy denies that side in the workload's namespace. Raises FieldError where only an unknown one may."""
    denying = matching(stack.of(NETWORK_POLICY), lambda each: same_namespace(each, workload) and isolates(each, side))
    return any(True for _ in denying)


RULE = StackRule(
    id="stack-require-default-deny",
    title="Namespaces with workloads deny traffic by default",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 4.3.2",
        "CKV2_K8S_6",
        "NSA-CISA: network policies",
    ),
    why="Without it, every pod of the cluster can reach every engine",
    remedy="add a NetworkPolicy with an empty podSelector, policyTypes Ingress and Egress, and no rule that allows all traffic",
    check=_check,
)
