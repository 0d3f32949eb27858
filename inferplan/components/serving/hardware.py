"""Environment that accelerators and networks require of pods of any engine: Gaudi's software, and
EFA, Amazon's network between nodes.
"""

from collections.abc import Collection

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.demand import uses_efa
from inferplan.components.serving.model_parts import PlacedModel, PodModel
from inferplan.hardware.accelerators import Vendor
from inferplan.images.catalogue import default_image

# Processes of one pod may not read each other's memory directly: that takes a capability which the
# pod drops.
NO_DIRECT_COPIES = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def default_image_of(spec: PodModel, target: NodeTarget) -> str | None:
    """Return the image of the engine for the accelerators of `target`, or for its CPUs; None if no
    table has one.
    """
    if target.accelerator is not None:
        return target.accelerator.engine(spec.engine).image
    return None if spec.cpu_build is None else default_image(spec.cpu_build.image)


def vendor_of(target: NodeTarget) -> Vendor | None:
    """Return the vendor of the accelerators of `target`; None for CPUs."""
    return None if target.accelerator is None else target.accelerator.vendor


def device_environment(count: int, target: NodeTarget) -> dict[str, str]:
    """Return the variables of a container with `count` accelerators."""
    vendor = vendor_of(target)
    if vendor is None:
        return {}
    return {**vendor.environment, **(vendor.environment_of_many if count > 1 else {})}


def torch_environment(target: NodeTarget, *, libraries: Collection[str | None]) -> dict[str, str]:
    """Return the variables of a Python backend that loads weights with `libraries`; none for vLLM,
    which sets its own.
    """
    vendor = vendor_of(target)
    return {} if vendor is None or "vllm" in libraries else dict(vendor.torch_environment)


def network_environment(spec: PlacedModel, target: NodeTarget) -> dict[str, str]:
    """Return the variables of libfabric and NCCL for replicas that exchange data over EFA; empty
    for all others.

    aws-samples/awsome-distributed-training, 1.architectures/efa-cheatsheet.md and nccl-tests.yaml,
    read 2026-11. FI_EFA_USE_DEVICE_RDMA stays unset: libfabric detects RDMA, and with 1 it ends the
    process on instance types without it. NCCL logs which network it uses at its start, since it
    falls back to TCP if an image has no aws-ofi-nccl.
    """
    if not uses_efa(spec, target):
        return {}
    return {
        "FI_PROVIDER": "efa",
        "FI_EFA_FORK_SAFE": "1",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET",
    }


def missing_libraries(name: str, spec: PodModel, target: NodeTarget) -> str | None:
    """Return the warning about a model that would use EFA from a default image; None for any other.

    No default image has libfabric and aws-ofi-nccl (vllm-project/vllm issue 55635, open, read
    2026-11).
    """
    if spec.image is not None or not uses_efa(spec, target):
        return None
    return (
        f"models.{name}: the default image has no EFA libraries, so NCCL would use TCP between the"
        f" nodes of pool {target.pool!r}. Build inferplan/images/vllm-efa and name it under image."
    )
