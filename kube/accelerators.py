"""Resources that count accelerators, with their vendors."""

from __future__ import annotations

RESOURCE_VENDORS = {
    "nvidia.com/gpu": "nvidia",
    "nvidia.com/gpu.shared": "nvidia",
    "habana.ai/gaudi": "habana",
    "amd.com/gpu": "amd",
    "aws.amazon.com/neuron": "aws",
    "aws.amazon.com/neuroncore": "aws",
    "aws.amazon.com/neurondevice": "aws",
    "google.com/tpu": "google",
    "gpu.intel.com/i915": "intel",
    "gpu.intel.com/xe": "intel",
}
MIG_PREFIX = "nvidia.com/mig-"
"""Start of the names of NVIDIA's slices, such as `nvidia.com/mig-1g.10gb`."""


def vendor_of(resource: str) -> str:
    """Return the vendor of a resource that counts accelerators, "" for any other resource."""
    return RESOURCE_VENDORS.get(resource) or ("nvidia" if resource.startswith(MIG_PREFIX) else "")
