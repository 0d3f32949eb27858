"""Environment that accelerators and networks require of pods of any engine: Gaudi's software, and
EFA, Amazon's network between nodes.
"""

from collections.abc import Collection

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.demand import uses_efa
from inferplan.components.serving.model_parts import PlacedModel, PodModel

# The software aborts (exit 134) when it cannot write there: ENV HABANA_LOGS of every image
# (HabanaAI/Setup_and_Install dockerfiles/base/Dockerfile.ubuntu24.04, 1.22.0), and the root is
# read-only. The directory exists, so nothing has to create it.
LOGS = "/var/log/habana_logs"
# Processes of one pod may not read each other's memory directly: that takes a capability which the
# pod drops.
NO_DIRECT_COPIES = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def on_vendor(target: NodeTarget, vendor: str) -> bool:
    return target.accelerator is not None and target.accelerator.vendor == vendor


def on_gaudi(target: NodeTarget) -> bool:
    return on_vendor(target, "habana")


def gaudi_environment(count: int, target: NodeTarget) -> dict[str, str]:
    """Return the variables of a container with `count` accelerators; none for other vendors."""
    if not on_gaudi(target):
        return {}
    # Mandatory for tensor parallelism with HPU graphs (vllm-gaudi
    # docs/configuration/env_variables.md, 0.26.0).
    collectives = {"PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"} if count > 1 else {}
    return {"HABANA_LOGS": LOGS, **NO_DIRECT_COPIES, **collectives}


def torch_environment(target: NodeTarget, *, libraries: Collection[str | None]) -> dict[str, str]:
    """Return the variables of a Python backend that loads weights with `libraries`; none for other
    vendors, and none for vLLM, which sets its own.
    """
    if not on_gaudi(target) or "vllm" in libraries:
        return {}
    # HabanaAI/Gaudi-tutorials PyTorch/triton_inference_server (2025-07).
    return {"PT_HPU_LAZY_MODE": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


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
