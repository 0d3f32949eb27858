"""Ray requires a token."""

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
    title="Ray requires a token",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "CVE-2023-48022",
    ),
    why=(
        "Anyone who can reach Ray's dashboard or job port can run code on the cluster, unless token authentication is on. It is"
        " off by default"
    ),
    remedy="set authOptions.mode: token in the spec of the Ray cluster",
    subject=objects(*RAY_CLUSTERS),
    check=_check,
)
