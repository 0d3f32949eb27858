"""The engine's parallelism matches the accelerators of its pod."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, RAY_CLUSTERS, Container, PodTemplate
from policies.subjects.quantities import quantity
from policies.subjects.serving import starts_vllm
from policies.subjects.workloads import group_size_of

# The first option of each that is given counts; Neuron's devices hold several cores each, so they are not ranks.
SIZES = (
    (("--tensor-parallel-size", "-tp"),),
    (("--pipeline-parallel-size", "-pp"),),
    (("--data-parallel-size-local", "-dpl"), ("--data-parallel-size", "-dp")),
)
VENDORS = ("nvidia", "habana", "amd")


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for container in pod.containers:
        limits = [(vendor, quantity(field) or 0) for vendor, side, field in container.accelerators() if side == "limits"]
        cards = sum(count for vendor, count in limits if vendor in VENDORS)
        if not cards or not starts_vllm(container) or _spans_cluster(pod, container):
            continue
        ranks = 1
        for alternatives in SIZES:
            size = next((told for names in alternatives if (told := container.option(*names)) is not None), "1")
            if not size.isdigit():
                yield found(container.at("args"), "reads a parallel size from another source")
                break
            ranks *= int(size)
        else:
            if ranks != cards * _pods(pod, container):
                yield found(container.at("args"), "does not match the number of accelerators of its pods")


def _pods(pod: PodTemplate, container: Container) -> float:
    """The number of pods one engine spans: those of a group, or the number that its options set."""
    nodes = container.option("--nnodes", "-n") or ""
    if nodes.isdigit():
        return int(nodes)
    return group_size_of(pod)


def _spans_cluster(pod: PodTemplate, container: Container) -> bool:
    """True if the engine takes its accelerators from a whole Ray cluster, so that those of its own pod say nothing."""
    return pod.resource.kind in RAY_CLUSTERS and container.option("--distributed-executor-backend") == "ray"


RULE = Rule(
    id="accelerator-require-tensor-parallel-fit",
    title="The engine's parallelism matches the accelerators of its pod",
    severity=Severity.HIGH,
    refs=("inference",),
    why="An engine that needs more accelerators than its pod has never starts. If it uses fewer, the rest are paid for and idle",
    remedy=(
        "set tensor, pipeline and data parallel sizes so that their product is the container's accelerators times the pods of its group"
    ),
    subject=PODS,
    check=_check,
)
