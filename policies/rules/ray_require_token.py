"""Ray asks for a token."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects
from policies.subjects.pods import RAY_CLUSTERS


def _check(ray: Resource, _: Parameters) -> Findings:
    cluster = ray.at(*RAY_CLUSTERS[ray.kind])
    mode = cluster.at("authOptions", "mode")
    # A RayJob without a cluster of its own runs on one that is there already.
    if mode.text() != "token" and not (ray.short_kind == "RayJob" and cluster.absent):
        yield found(mode, "is not token")


RULE = Rule(
    id="ray-require-token",
    title="Ray asks for a token",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "CVE-2023-48022",
    ),
    why="Ray's dashboard and job port run code for anybody who reaches them, unless token authentication is on; it is off by default",
    remedy="set authOptions.mode: token in the Ray cluster's spec",
    subject=objects(*RAY_CLUSTERS),
    check=_check,
)
