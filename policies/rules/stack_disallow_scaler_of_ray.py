"""No autoscaler of pods scales a Ray cluster."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.engines import SCALERS

KINDS = ("RayService", "RayCluster")


def _check(stack: Stack, _: Parameters) -> Findings:
    for scaler in stack.of(*SCALERS):
        with stack.doubts:
            kind = scaler.at("spec", "scaleTargetRef", "kind")
            if kind.text() in KINDS:
                yield found(kind, "is not scaled by its number of pods", urn=scaler.urn)


RULE = StackRule(
    id="stack-disallow-scaler-of-ray",
    title="No autoscaler of pods scales a Ray cluster",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Ray's replicas come from Serve's autoscaling_config and its nodes from KubeRay; a third hand on them starts a fight",
    remedy="remove the HPA or ScaledObject; set autoscaling_config of the application, and enableInTreeAutoscaling for its nodes",
    check=_check,
)
