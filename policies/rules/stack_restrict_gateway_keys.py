"""Only the gateway reads the keys of consumers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.routes import SECURITY_POLICY

COMPONENT = "app.kubernetes.io/component"
# What a Secret of consumers' keys is called where nothing in the stack says that it is one.
NAMED = re.compile(r"(^|-)(gateway|consumer|client|api)-keys?\Z")


def _check(stack: Stack, _: Parameters) -> Findings:
    pods = [pod for each in stack for pod in _pods(stack, each)]
    guarded = set(_credentials(stack))
    for pod in pods:
        with stack.doubts:
            if _is_gateway(pod):
                continue
            namespace = pod.resource.at("metadata", "namespace").text()
            for place in _secrets(pod):
                if (namespace, place.text()) in guarded or NAMED.search(place.text()):
                    yield found(place, "contains keys that only the gateway needs", urn=pod.resource.urn)


def _pods(stack: Stack, resource: Resource) -> tuple[PodTemplate, ...]:
    with stack.doubts:
        if resource.kind in PODS.kinds:
            return resource.parts(PODS)
    return ()


def _credentials(stack: Stack) -> Iterator[tuple[str, str]]:
    """Namespace and name of the Secrets that Envoy Gateway compares keys with."""
    for policy in stack.of(SECURITY_POLICY):
        with stack.doubts:
            here = policy.at("metadata", "namespace").text()
            for reference in policy.at("spec", "apiKeyAuth", "credentialRefs").each():
                yield reference.at("namespace").text() or here, reference.at("name").text()


def _is_gateway(pod: PodTemplate) -> bool:
    return pod.metadata.at("labels", COMPONENT).text() == "gateway"


def _secrets(pod: PodTemplate) -> Iterator[Field]:
    """The fields in which a pod names Secrets: volumes, projected volumes and variables. Raises FieldError."""
    for volume in pod.at("volumes").each():
        yield volume.at("secret", "secretName")
        yield from (source.at("secret", "name") for source in volume.at("projected", "sources").each())
    for container in pod.containers:
        yield from (entry.at("valueFrom", "secretKeyRef", "name") for entry in container.at("env").each())
        yield from (source.at("secretRef", "name") for source in container.at("envFrom").each())


RULE = StackRule(
    id="stack-restrict-gateway-keys",
    title="Only the gateway reads the keys of consumers",
    severity=Severity.CRITICAL,
    refs=("inference", "Kubernetes: Good practices for Secrets"),
    why="A model server that can read a consumer's key can use it for every other model",
    remedy="remove the Secret from the pod; a server has its own key",
    check=_check,
)
