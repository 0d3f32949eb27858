"""Accelerators that pods claim (Dynamic Resource Allocation): how many of which vendor. It evaluates no expression and reads no ResourceSlice."""

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
# Device classes that the vendors' drivers install. Those of compute domains are networks between accelerators.
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
    """The number of of each vendor's accelerators a pod asks for, by name of resource or by claim.

    Raises FieldError, UnseenFieldError if the number of a claim is unknown: the stack does not declare it, or it claims all devices.
    """
    total = dict(pod.demand)
    for reference in pod.at("resourceClaims").each():
        for vendor, count in _claimed(stack, pod.resource, reference).items():
            total[vendor] = total.get(vendor, 0) + count
    return total


def _claimed(stack: Stack, owner: Resource, reference: Field) -> dict[str, float]:
    total: dict[str, float] = {}
    for key, (kind, path) in _KINDS.items():
        name = reference.at(key)
        if not name.text():
            continue
        alike = matching(
            stack.of(kind), lambda each, name=name: each.at("metadata", "name").text() == name.text() and same_namespace(each, owner)
        )
        claim = next(alike, None)
        if claim is None:
            raise UnseenFieldError(name, "names a claim that the stack does not declare")
        for request in claim.at(*path, "devices", "requests").each():
            vendor, count = _requested(request)
            if vendor:
                total[vendor] = total.get(vendor, 0) + count
    return total


def _requested(request: Field) -> tuple[str, float]:
    """Vendor and number of one request; since resource.k8s.io/v1beta2 the fields are in `exactly`. Raises FieldError."""
    if not request.at("firstAvailable").absent:
        raise UnseenFieldError(request.at("firstAvailable"), "leaves the choice of devices to the scheduler")
    exactly = request if request.at("exactly").absent else request.at("exactly")
    if exactly.at("allocationMode").text() == "All":
        raise UnseenFieldError(exactly.at("allocationMode"), "claims all devices of a node")
    name = exactly.at("deviceClassName")
    if name.text().startswith("compute-domain-") and name.text().endswith(".nvidia.com"):
        return "", 0
    for ending, vendor in _CLASSES.items():
        if f".{name.text()}".endswith(f".{ending}"):
            return vendor, _one_or(exactly.at("count"))
    raise UnseenFieldError(name, "is a device class that no rule knows")


def _one_or(count: Field) -> float:
    number = count.number()
    return 1 if number is None else number
