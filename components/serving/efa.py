"""What a pod needs to exchange data over EFA, Amazon's network interface for traffic between the accelerators of several nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.serving.demand import uses_efa

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.serving.served_model import ServedModel


def network_environment(spec: ServedModel, target: NodeTarget) -> dict[str, str]:
    """The variables of libfabric and NCCL for replicas that exchange data over EFA; empty for all others.

    aws-samples/awsome-distributed-training, 1.architectures/efa-cheatsheet.md and nccl-tests.yaml, read 2026-11. FI_EFA_USE_DEVICE_RDMA
    stays unset: libfabric finds out by itself, and with 1 it ends the process on instance types without RDMA. NCCL tells which
    network it took as it starts, since it falls back to TCP where an image has no aws-ofi-nccl.
    """
    if not uses_efa(spec, target):
        return {}
    return {"FI_PROVIDER": "efa", "FI_EFA_FORK_SAFE": "1", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}


def missing_libraries(name: str, spec: ServedModel, target: NodeTarget) -> str | None:
    """What to tell of a model that would use EFA from a default image, None for any other.

    No default image has libfabric and aws-ofi-nccl (vllm-project/vllm issue 55635, open, read 2026-11).
    """
    if spec.image is not None or not uses_efa(spec, target):
        return None
    return (
        f"models.{name}: the default image has no EFA libraries, so NCCL would use TCP between the nodes of pool {target.pool!r}. "
        "Build images/vllm-efa and name it under image."
    )
