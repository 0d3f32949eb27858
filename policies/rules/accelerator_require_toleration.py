"""Pods with accelerators tolerate the taint of their pool."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, VENDOR_RESOURCES, PodTemplate


def _check(pod: PodTemplate, given: Parameters) -> Findings:
    keys = {each.at("key").text() for each in pod.at("tolerations").each()}
    for vendor in pod.demand:
        wanted = {name for name, owner in VENDOR_RESOURCES.items() if owner == vendor}
        if not keys & {*wanted, *given["taints"], ""}:
            yield found(pod.at("tolerations"), "has no toleration for the accelerator's taint")
    claims = any(True for _ in pod.at("resourceClaims").each())
    # Whose device a claim is for stands elsewhere, so the taint of any vendor will do.
    if claims and not pod.demand and not keys & {*VENDOR_RESOURCES, *given["taints"], ""}:
        yield found(pod.at("tolerations"), "has no toleration for the taint of a claimed accelerator")


RULE = Rule(
    id="accelerator-require-toleration",
    title="Pods with accelerators tolerate the taint of their pool",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Accelerator nodes are tainted to keep other pods away. Without the toleration the pod stays Pending",
    remedy=(
        "add a toleration for the taint of the pool, for example nvidia.com/gpu or habana.ai/gaudi; list other taint keys under"
        " parameters.accelerator-require-toleration.taints"
    ),
    subject=PODS,
    check=_check,
    parameters={
        "taints": Parameter(
            default=[],
            description="Taint keys of pools that differ from the name of the accelerator's resource",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
