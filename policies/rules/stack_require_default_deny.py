"""Namespaces with workloads deny traffic by default."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import workloads_of
from policies.subjects.isolation import NETWORK_POLICY, isolates
from policies.subjects.workloads import GROUPS


def _check(stack: Stack, _: Parameters) -> Findings:
    denied: dict[str, set[str]] = {"Ingress": set(), "Egress": set()}
    for policy in stack.of(NETWORK_POLICY):
        for side, namespaces in denied.items():
            if isolates(policy, side):
                namespaces.add(policy.at("metadata", "namespace").text())
    told = denied["Ingress"] & denied["Egress"]
    for workload in (*workloads_of(stack), *stack.of(*GROUPS)):
        namespace = workload.at("metadata", "namespace")
        if namespace.text() not in told:
            told.add(namespace.text())
            yield found(namespace, "is a namespace without a default deny", urn=workload.urn)


RULE = StackRule(
    id="stack-require-default-deny",
    title="Namespaces with workloads deny traffic by default",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 4.3.2",
        "CKV2_K8S_6",
        "NSA-CISA: network policies",
    ),
    why="Without it every pod of the cluster reaches every engine, with or without a key",
    remedy="add a NetworkPolicy with an empty podSelector, policyTypes Ingress and Egress, and no rule that lets everybody through",
    check=_check,
)
