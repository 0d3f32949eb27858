"""Only named pods reach a model."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import engines_of, selecting


def _check(stack: Stack, _: Parameters) -> Findings:
    kind = "kubernetes:networking.k8s.io:NetworkPolicy"
    for workload, pod in engines_of(stack):
        closed = False
        for policy in selecting(stack, kind, workload, pod, "spec", "podSelector"):
            closed = closed or "Ingress" in policy.at("spec", "policyTypes").texts()
            for rule in policy.at("spec", "ingress").each():
                peers = list(rule.at("from").each())
                if not peers or any(_is_everybody(peer) for peer in peers):
                    yield found(rule.at("from"), "lets everybody reach a model", urn=policy.urn)
        if not closed:
            yield found(workload.at("metadata", "name"), "has no network policy for what comes in", urn=workload.urn)


def _is_everybody(peer: Field) -> bool:
    if peer.at("ipBlock", "cidr").text() in ("0.0.0.0/0", "::/0"):
        return True
    empty = [selector for name in ("podSelector", "namespaceSelector") if (selector := peer.at(name).value) is not None]
    return bool(empty) and not any(empty)


RULE = StackRule(
    id="stack-require-policy-before-models",
    title="Only named pods reach a model",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "NSA-CISA: network policies",
    ),
    why="A model's port is a model without keys for every pod that reaches it",
    remedy="add a NetworkPolicy that selects the model's pods and names under ingress.from who may connect",
    check=_check,
)
