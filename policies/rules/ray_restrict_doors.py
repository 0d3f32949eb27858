"""Ray is reached through the gateway, and runs the code of its image."""

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
    title="Ray is reached through the gateway, and runs the code of its image",
    severity=Severity.CRITICAL,
    refs=("inference", "Ray: Security", "CVE-2023-48022"),
    why="Whoever reaches Ray's head runs jobs on every worker; a runtime environment runs code that nobody pinned beside the weights",
    remedy="use Services of type ClusterIP without enableIngress, build packages and code into the image, and leave trust_remote_code out of serveConfigV2",
    subject=objects(*RAY_CLUSTERS),
    check=_check,
)
