"""vLLM's build for CPUs: its variables, and the settings that it ignores or rejects."""

from collections.abc import Iterator, Mapping
from typing import Final

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.demand import demand_of
from inferplan.components.serving.model_parts import CpuBuild, PodModel
from inferplan.documents.errors import SpecError
from inferplan.kube.quantity import bytes_of, millicores_of
from inferplan.tables import table

_TABLE = table("components/serving/vllm/engine_args.toml")["cpu"]
CACHE_VARIABLE: Final = "VLLM_CPU_KVCACHE_SPACE"
BINDING_VARIABLE: Final = "VLLM_CPU_OMP_THREADS_BIND"
_GI: Final = 2**30
# The processes of vLLM 0.32 without weights and KV cache take 1.9 GiB with one worker
# (docs/decisions/real-node.md).
_PROCESSES: Final = 2 * _GI + _GI // 4
CPU_BUILD: Final = CpuBuild(
    program="vllm",
    image="vllm-cpu",
    lacks=frozenset(_TABLE["lacks"]),
    # A model that is small enough for a laptop needs little; by default the engine takes half of
    # the memory.
    environment={CACHE_VARIABLE: "1"},
)


def environment(spec: PodModel, target: NodeTarget) -> dict[str, str]:
    """Return the variables of a server on the CPUs of `target`: the size of the KV cache, which
    vLLM otherwise takes from the node's memory, and its threads.
    """
    demand, ranks = demand_of(spec, spec.accelerators_per_pod, target), spec.accelerators_per_pod
    cache = {CACHE_VARIABLE: str(max(1, _cache_bytes(spec, demand) // _GI))}
    if ranks > 1:
        # Each rank takes the cores of one NUMA node.
        return {**cache, BINDING_VARIABLE: "auto"}
    # The kubelet gives a pod no cores of its own, so threads are not bound to cores, where other
    # pods run. One core is for the scheduler, as in vLLM's own rule.
    threads = max(1, millicores_of(demand["cpu"]) // 1000 - 1)
    return {**cache, BINDING_VARIABLE: "nobind", "OMP_NUM_THREADS": str(threads)}


def _cache_bytes(spec: PodModel, demand: Mapping[str, str]) -> int:
    """Return the memory for the KV cache: half of what the processes and the weights leave."""
    weights = spec.stored_files.size if spec.stored_files is not None else None
    room = bytes_of(demand["memory"]) - _PROCESSES
    return (room - bytes_of(weights)) if weights else room // 2


def errors(spec: PodModel, target: NodeTarget) -> Iterator[SpecError]:
    """Yield the settings of a model on a pool without accelerators that cannot work there."""
    for field, problem in _TABLE["rejected"].items():
        if field in spec.model_fields_set:
            name = type(spec).model_fields[field].alias or field
            yield SpecError((name,), f"{problem} Pool {target.pool!r} has CPUs. Remove {name}.")
    demand = demand_of(spec, spec.accelerators_per_pod, target)
    if CACHE_VARIABLE not in spec.env and _cache_bytes(spec, demand) < _GI:
        weights = spec.stored_files.size if spec.stored_files is not None else None
        needed = _PROCESSES + _GI + (bytes_of(weights) if weights else _GI)
        yield SpecError(
            ("resources", "memory"),
            f"{demand['memory']} of memory are too little for vLLM on CPUs: its processes need"
            f" {_PROCESSES / _GI:g}Gi, the weights {weights or 'an unknown size'} and the KV cache at"
            f" least 1Gi. Write resources: {{memory: {-(-needed // _GI)}Gi}}, or more.",
        )
