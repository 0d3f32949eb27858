"""Namespaces enforce the restricted pod security profile."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

PREFIX = "pod-security.kubernetes.io/"


def _check(namespace: Resource, given: Parameters) -> Findings:
    labels = namespace.at("metadata", "labels")
    if namespace.at("metadata", "name").text() in given["privileged"]:
        return
    if labels.at(f"{PREFIX}enforce").text() != "restricted":
        yield found(labels.at(f"{PREFIX}enforce"), "is not restricted")
    if not labels.at(f"{PREFIX}enforce-version").text().startswith("v"):
        yield found(labels.at(f"{PREFIX}enforce-version"), "pins no version")


RULE = Rule(
    id="namespace-require-pod-security",
    title="Namespaces enforce the restricted pod security profile",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted",
        "CIS EKS 4.2",
        "NSA-CISA: pod security enforcement",
    ),
    why="The API server itself then refuses what got past every review",
    remedy="label the namespace pod-security.kubernetes.io/enforce: restricted and pod-security.kubernetes.io/enforce-version: v1.34",
    subject=objects("kubernetes:core:Namespace"),
    check=_check,
    parameters={
        "privileged": Parameter(
            default=[],
            description="Namespaces of drivers and device plugins, which need more",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
