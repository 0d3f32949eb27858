"""Ray is reached through the gateway and runs only code from its image."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects
from policies.subjects.pods import RAY_CLUSTERS
from policies.subjects.ray import brought, doors


def _check(ray: Resource, _: Parameters) -> Findings:
    yield from (found(place, problem) for place, problem in doors(ray))
    yield from (found(place, problem) for place, problem in brought(ray))


RULE = Rule(
    id="ray-restrict-doors",
    title="Ray is reached through the gateway and runs only code from its image",
    severity=Severity.CRITICAL,
    refs=("inference", "Ray: Security", "CVE-2023-48022"),
    why="Anyone who can reach the Ray head can run jobs on every worker. A runtime environment downloads code that is not pinned",
    remedy=(
        "use Services of type ClusterIP without enableIngress, build packages and code into the image, and remove "
        "trust_remote_code from serveConfigV2"
    ),
    subject=objects(*RAY_CLUSTERS),
    check=_check,
)
