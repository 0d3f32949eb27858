"""Engines use the accelerators that their pod holds."""

from __future__ import annotations

import math

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.quantities import quantity
from policies.subjects.serving import is_vllm
from policies.subjects.workloads import LEADER_WORKER_SET

OPTIONS = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size-local", "--data-parallel-size", "-dp"),
)


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    # One engine spans all pods of a group there.
    pods = pod.resource.at("spec", "leaderWorkerTemplate", "size").number() or 1 if pod.resource.kind == LEADER_WORKER_SET else 1
    for container in pod.containers:
        cards = sum(quantity(field) or 0 for _vendor, side, field in container.accelerators() if side == "limits")
        if is_vllm(container) and cards:
            sizes = [container.option(*names) for names in OPTIONS]
            ranks = math.prod(int(size) for size in sizes if size and size.isdigit())
            if ranks != cards * pods:
                yield found(container.at("args"), "splits the model over another number of accelerators than its pods hold")


RULE = Rule(
    id="accelerator-require-tensor-parallel-fit",
    title="Engines use the accelerators that their pod holds",
    severity=Severity.HIGH,
    refs=("inference",),
    why="An engine split over more cards than the pod has never starts; over fewer, the rest is paid for and idle",
    remedy="make tensor x pipeline x data parallel size equal to the accelerators of the container, times the pods of its group",
    subject=PODS,
    check=_check,
)
