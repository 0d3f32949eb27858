"""What Gaudi's software needs of every pod that uses it, whatever the engine."""

from __future__ import annotations

from collections.abc import Collection

from pulumi_kubernetes.core import v1 as core

from components.handles import NodeTarget

# The software aborts (exit 134) when it cannot write there: ENV HABANA_LOGS of every image (HabanaAI/Setup_and_Install
# dockerfiles/base/Dockerfile.ubuntu24.04, 1.22.0), and the root is read-only. The directory exists, so nothing has to create it.
LOGS = "/var/log/habana_logs"
_VOLUME = "habana-logs"


def on_gaudi(target: NodeTarget) -> bool:
    """True if the pods of `target` get Gaudi accelerators."""
    return target.accelerator is not None and target.accelerator.vendor == "habana"


def environment(cards: int, target: NodeTarget) -> dict[str, str]:
    """The variables of a container with `cards` accelerators; none off Gaudi."""
    if not on_gaudi(target):
        return {}
    # Processes of one pod may not read each other's memory directly: that takes a capability which the pod drops.
    clear = {"HABANA_LOGS": LOGS, "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    if cards > 1:
        # Mandatory for tensor parallelism with HPU graphs (vllm-gaudi docs/configuration/env_variables.md, 0.26.0).
        clear["PT_HPU_ENABLE_LAZY_COLLECTIVES"] = "true"
    return clear


def torch_environment(target: NodeTarget, *, libraries: Collection[str | None]) -> dict[str, str]:
    """The variables of a Python backend that loads weights with `libraries`; none off Gaudi, and none for vLLM, which sets its own."""
    if not on_gaudi(target) or "vllm" in libraries:
        return {}
    # HabanaAI/Gaudi-tutorials PyTorch/triton_inference_server (2025-07).
    return {"PT_HPU_LAZY_MODE": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def volumes(target: NodeTarget) -> list[core.VolumeArgs]:
    """The volume for the software's logs; none off Gaudi."""
    return [core.VolumeArgs(name=_VOLUME, empty_dir=core.EmptyDirVolumeSourceArgs(size_limit="1Gi"))] if on_gaudi(target) else []


def mounts(target: NodeTarget) -> list[core.VolumeMountArgs]:
    """Where the volume is mounted."""
    return [core.VolumeMountArgs(name=_VOLUME, mount_path=LOGS)] if on_gaudi(target) else []
