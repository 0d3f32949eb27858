"""Namespaces enforce the restricted Pod Security Standard."""

from __future__ import annotations

from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, StackRule, found
from policies.subjects.device_plugins import vendor_excuses
from policies.subjects.pods import PODS

PREFIX = "pod-security.kubernetes.io/"


def _check(stack: Stack, given: Parameters) -> Findings:
    for namespace in stack.of("kubernetes:core:Namespace"):
        with stack.doubts:
            if namespace.at("metadata", "name").text() not in given["privileged"] and not _holds_plugins_alone(stack, namespace):
                yield from _labels(namespace)


def _labels(namespace: Resource) -> Findings:
    labels = namespace.at("metadata", "labels")
    if labels.at(f"{PREFIX}enforce").text() != "restricted":
        yield found(labels.at(f"{PREFIX}enforce"), "is not restricted", urn=namespace.urn)
    if not labels.at(f"{PREFIX}enforce-version").text().startswith("v"):
        yield found(labels.at(f"{PREFIX}enforce-version"), "is not a fixed version", urn=namespace.urn)


def _holds_plugins_alone(stack: Stack, namespace: Resource) -> bool:
    """True if a namespace says that it is privileged and every pod that the stack puts there is a vendor's device plugin. Raises FieldError."""
    if namespace.at("metadata", "labels", f"{PREFIX}enforce").text() != "privileged":
        return False
    name = namespace.at("metadata", "name").text()
    held = [each for each in stack.of(*sorted(PODS.kinds)) if each.at("metadata", "namespace").text() == name]
    return bool(held) and all(map(vendor_excuses, held))


RULE = StackRule(
    id="namespace-require-pod-security",
    title="Namespaces enforce the restricted Pod Security Standard",
    severity=Severity.HIGH,
    refs=(
        "PSS restricted",
        "CIS EKS 4.2",
        "NSA-CISA: pod security enforcement",
    ),
    why=(
        "The API server then rejects pods that a review missed. A namespace that holds only device plugins is exempt, because "
        "they mount the kubelet's directory"
    ),
    remedy="label the namespace pod-security.kubernetes.io/enforce: restricted and pod-security.kubernetes.io/enforce-version: v1.34",
    check=_check,
    parameters={
        "privileged": Parameter(
            default=[],
            description="Namespaces of drivers and device plugins, which need more privileges",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
