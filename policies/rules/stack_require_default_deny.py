"""Namespaces with workloads deny traffic by default."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import workloads_of
from policies.subjects.workloads import GROUPS


def _check(stack: Stack, _: Parameters) -> Findings:
    denied = {
        policy.at("metadata", "namespace").text()
        for policy in stack.of("kubernetes:networking.k8s.io:NetworkPolicy")
        if _denies_all(policy)
    }
    told = set()
    for workload in (*workloads_of(stack), *stack.of(*GROUPS)):
        namespace = workload.at("metadata", "namespace")
        if namespace.text() not in denied | told:
            told.add(namespace.text())
            yield found(namespace, "is a namespace without a default deny", urn=workload.urn)


def _denies_all(policy: Resource) -> bool:
    selector = policy.at("spec", "podSelector")
    everything = not selector.at("matchLabels").value and not selector.at("matchExpressions").value
    types = set(policy.at("spec", "policyTypes").texts())
    rules = [*policy.at("spec", "ingress").each(), *policy.at("spec", "egress").each()]
    return everything and types >= {"Ingress", "Egress"} and not rules


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
    remedy="add a NetworkPolicy with an empty podSelector, policyTypes Ingress and Egress and no rules",
    check=_check,
)
