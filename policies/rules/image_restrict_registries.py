"""Images come from the registries of the list."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.images import image_of
from policies.subjects.pods import PODS, PodTemplate


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    for container in pod.containers:
        name = image_of(container.at("image")).name
        if not any(name == allowed or name.startswith(f"{allowed.rstrip('/')}/") for allowed in given["registries"]):
            yield found(container.at("image"), "is of a registry that is not on the list")


RULE = Rule(
    id="image-restrict-registries",
    title="Images come from the registries of the list",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 5.1.4",
        "restrict-image-registries",
        "inference",
    ),
    why="An image from anywhere is code from anyone, beside the keys and the weights",
    remedy="mirror the image to a registry of the list, or add the registry to the parameter",
    subject=PODS,
    check=_check,
    parameters={
        "registries": Parameter(
            default=["docker.io", "ghcr.io", "nvcr.io", "public.ecr.aws", "quay.io", "registry.k8s.io", "vault.habana.ai"],
            description="Registries, or paths in them, that images may come from",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
