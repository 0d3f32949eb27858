"""No pod autoscaler scales a Ray cluster."""

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
                yield found(kind, "cannot be scaled by its number of pods", urn=scaler.urn)


RULE = StackRule(
    id="stack-disallow-scaler-of-ray",
    title="No pod autoscaler scales a Ray cluster",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Serve's autoscaling_config sets Ray's replicas and KubeRay its nodes. A third autoscaler works against both",
    remedy="remove the HPA or ScaledObject; set autoscaling_config in the application, and enableInTreeAutoscaling for nodes",
    check=_check,
)
