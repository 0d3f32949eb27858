"""Preheat Jobs and DaemonSets request no accelerator."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.quantities import quantity

# Programs that compile engines for the very accelerator that will serve them: TensorRT-LLM's own, and the one of the `build` section.
BUILDERS = frozenset(["trtllm-build", "components.serving.tensorrt_llm.payload.engines"])


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    if (pod.runs_to_end or pod.resource.short_kind == "DaemonSet") and pod.resource.name not in given["jobs"]:
        for container in pod.containers:
            if pod.runs_to_end and not BUILDERS.isdisjoint(container.words):
                continue
            for _vendor, _side, field in container.accelerators():
                if quantity(field):
                    yield found(field, f"requests an accelerator in a {pod.resource.short_kind}")
        for claim in pod.at("resourceClaims").each():
            yield found(claim, f"claims a device in a {pod.resource.short_kind}")


RULE = Rule(
    id="accelerator-disallow-in-preheat",
    title="Preheat Jobs and DaemonSets request no accelerator",
    severity=Severity.HIGH,
    refs=("inference",),
    why=(
        "A copy can take an hour, and a DaemonSet's pod never ends. The accelerator would sit idle for that time. A Job that "
        "compiles TensorRT engines does need one"
    ),
    remedy=(
        "remove the accelerator from resources and resourceClaims, or list a Job that computes under "
        "parameters.accelerator-disallow-in-preheat.jobs"
    ),
    subject=PODS,
    check=_check,
    parameters={
        "jobs": Parameter(
            default=[],
            description="Names of Jobs and DaemonSets that need accelerators",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
