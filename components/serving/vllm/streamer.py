"""The memory that Run:ai's streamer may buffer weights in, from the memory of the pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.serving.demand import demand_of
from kube.quantity import bytes_of

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.serving.vllm.spec import VllmSpec

# run-ai/runai-model-streamer 0.15.9, docs/src/env-vars.md, read 2026-11: without a limit each process buffers up to 40 GB,
# and without any bound where the processes of a replica stream together.
_UPSTREAM = 40 * 10**9
# The rest is for vLLM's processes themselves, and for what they allocate while they load.
_SHARE = 0.5


def memory_limit(spec: VllmSpec, target: NodeTarget) -> int:
    """`RUNAI_STREAMER_MEMORY_LIMIT` in bytes: half of the pod's memory without /dev/shm, divided among one process per accelerator.

    The streamer refuses a limit below the largest tensor of the model, so a pod with little memory fails at once instead of being killed.
    """
    memory = bytes_of(demand_of(spec, spec.accelerators_per_pod, target)["memory"]) - bytes_of(spec.shared_memory)
    return min(_UPSTREAM, int(memory * _SHARE) // spec.accelerators_per_pod)
