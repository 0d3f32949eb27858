"""Only named pods can reach a model."""

from __future__ import annotations

from policies.engine.fields import matching
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import engines_of, selecting
from policies.subjects.isolation import NETWORK_POLICY, opens, sides_of


def _check(stack: Stack, _: Parameters) -> Findings:
    for workload, pod in engines_of(stack):
        with stack.doubts:
            for policy in selecting(stack, NETWORK_POLICY, workload, pod, "spec", "podSelector"):
                with stack.doubts:
                    yield from _openings(policy)
        with stack.doubts:
            selected = selecting(stack, NETWORK_POLICY, workload, pod, "spec", "podSelector")
            if not any(True for _ in matching(selected, lambda policy: "Ingress" in sides_of(policy))):
                yield found(workload.at("metadata", "name"), "has no network policy for ingress", urn=workload.urn)


def _openings(policy: Resource) -> Findings:
    for rule in policy.at("spec", "ingress").each():
        peers = list(rule.at("from").each())
        if not peers or opens(peers):
            yield found(rule.at("from"), "lets any pod reach a model", urn=policy.urn)


RULE = StackRule(
    id="stack-require-policy-before-models",
    title="Only named pods can reach a model",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "NSA-CISA: network policies",
    ),
    why="Any pod that can reach a model's port can use the model without a key",
    remedy="add a NetworkPolicy that selects the model's pods and lists the allowed peers under ingress.from",
    check=_check,
)
