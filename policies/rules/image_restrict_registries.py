"""Images come from listed registries."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.images import image_of
from policies.subjects.pods import IMAGES


def _check(place: Field, given: Parameters) -> Findings:
    name = image_of(place).name
    if not any(name == allowed or name.startswith(f"{allowed.rstrip('/')}/") for allowed in given["registries"]):
        yield found(place, "comes from a registry that is not listed")


RULE = Rule(
    id="image-restrict-registries",
    title="Images come from listed registries",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 5.1.4",
        "restrict-image-registries",
        "inference",
    ),
    why="An image from an unknown registry is unreviewed code that runs with access to keys and weights",
    remedy="mirror the image to a listed registry, or add its registry under parameters.image-restrict-registries.registries",
    subject=IMAGES,
    check=_check,
    parameters={
        "registries": Parameter(
            default=["docker.io", "ghcr.io", "nvcr.io", "public.ecr.aws", "quay.io", "registry.k8s.io", "vault.habana.ai"],
            description="Registries, or paths in registries, that images may come from",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
