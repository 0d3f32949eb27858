"""Accelerators that pods claim (Dynamic Resource Allocation), without CEL expressions and ResourceSlices."""

from __future__ import annotations

from policies.engine.fields import Field, UnseenFieldError, matching
from policies.engine.resource import Resource, Stack
from policies.subjects.placement import same_namespace
from policies.subjects.pods import PodTemplate

_API = "kubernetes:resource.k8s.io"
_KINDS = {
    "resourceClaimName": (f"{_API}:ResourceClaim", ("spec",)),
    "resourceClaimTemplateName": (f"{_API}:ResourceClaimTemplate", ("spec", "spec")),
}
# Device classes of the vendors' drivers.
_CLASSES = {
    "gpu.nvidia.com": "nvidia",
    "mig.nvidia.com": "nvidia",
    "gaudi.intel.com": "habana",
    "gpu.amd.com": "amd",
    "neuron.aws.com": "aws",
    "neuron.amazonaws.com": "aws",
    "tpu.google.com": "google",
}


def demand_of(stack: Stack, pod: PodTemplate) -> dict[str, float]:
    """The number of accelerators that a pod requests, by vendor. Claims count too.

    Raises FieldError, and UnseenFieldError for a claim of an unknown size: the stack does not declare it, or it claims all devices.
    """
    total = dict(pod.demand)
    for reference in pod.at("resourceClaims").each():
        for vendor, count in _demand_of_claim(stack, pod.resource, reference).items():
            total[vendor] = total.get(vendor, 0) + count
    return total


def _demand_of_claim(stack: Stack, owner: Resource, reference: Field) -> dict[str, float]:
    total: dict[str, float] = {}
    for key, (kind, path) in _KINDS.items():
        name = reference.at(key)
        if not name.text():
            continue
        claims = matching(
            stack.of(kind), lambda each, name=name: each.at("metadata", "name").text() == name.text() and same_namespace(each, owner)
        )
        claim = next(claims, None)
        if claim is None:
            raise UnseenFieldError(name, "names a claim that the stack does not declare")
        for request in claim.at(*path, "devices", "requests").each():
            vendor, count = _demand_of_request(request)
            if vendor:
                total[vendor] = total.get(vendor, 0) + count
    return total


def _demand_of_request(request: Field) -> tuple[str, float]:
    """The vendor and number of one request. Since resource.k8s.io/v1beta2 they are in `exactly`. Raises FieldError."""
    if not request.at("firstAvailable").absent:
        raise UnseenFieldError(request.at("firstAvailable"), "leaves the choice of devices to the scheduler")
    exactly = request if request.at("exactly").absent else request.at("exactly")
    if exactly.at("allocationMode").text() == "All":
        raise UnseenFieldError(exactly.at("allocationMode"), "claims all devices of a node")
    name = exactly.at("deviceClassName")
    # A compute domain is a network between accelerators.
    if name.text().startswith("compute-domain-") and name.text().endswith(".nvidia.com"):
        return "", 0
    for ending, vendor in _CLASSES.items():
        if f".{name.text()}".endswith(f".{ending}"):
            return vendor, _number_or_one(exactly.at("count"))
    raise UnseenFieldError(name, "is a device class that no rule knows")


def _number_or_one(count: Field) -> float:
    number = count.number()
    return 1 if number is None else number
