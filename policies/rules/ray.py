"""Ray clusters."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, found, resource_rule, stack_rule
from policies.subjects.engines import SCALERS
from policies.subjects.images import at_least, image_of
from policies.subjects.objects import objects
from policies.subjects.pods import IMAGES, RAY_CLUSTERS
from policies.subjects.queues import queue_of
from policies.subjects.ray import brought, doors

MOST_GROUPS = 17


@resource_rule(objects(*RAY_CLUSTERS), Severity.MEDIUM, "inference", "Kueue: RayService")
def ray_limit_queued_groups(ray: Resource, _: Parameters) -> Findings:
    """Queued Ray clusters have a shape that Kueue admits.

    Why: Kueue rejects Ray's own autoscaler, more than seventeen worker groups and a group named head.
    Remedy: disable enableInTreeAutoscaling, merge worker groups or rename the group; or remove the queue's label.
    """
    if not queue_of(ray).text():
        return
    cluster = ray.at(*RAY_CLUSTERS[ray.kind])
    scaling = cluster.at("enableInTreeAutoscaling")
    if scaling.flag():
        yield found(scaling, "is enabled in a queued cluster")
    groups = list(cluster.at("workerGroupSpecs").each())
    if len(groups) > MOST_GROUPS:
        yield found(cluster.at("workerGroupSpecs"), f"has more than {MOST_GROUPS} groups")
    for group in groups:
        if group.at("groupName").text() == "head":
            yield found(group.at("groupName"), "is reserved for the head")


VERSION = re.compile(r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)")


@resource_rule(
    IMAGES,
    Severity.CRITICAL,
    "inference",
    "CVE-2023-48022",
    parameters={"version": Parameter(default="2.52", description="Oldest version of Ray that is allowed", schema={"type": "string"})},
)
def ray_require_floor(place: Field, given: Parameters) -> Findings:
    """Ray is recent enough to require a token.

    Why: Before 2.52, anyone who can reach Ray's ports can run code on the cluster.
    Remedy: use an image of Ray 2.52 or newer with the version in its tag, for example rayproject/ray:2.60.0.
    """
    image = image_of(place)
    if "rayproject/" in image.name or image.base == "ray" or image.base.startswith("ray-"):
        match = VERSION.match(image.tag)
        if match is None or not at_least(match.group(1), given["version"]):
            yield found(place, f"is not Ray {given['version']} or newer")


@resource_rule(objects(*RAY_CLUSTERS), Severity.CRITICAL, "inference", "CVE-2023-48022")
def ray_require_token(ray: Resource, _: Parameters) -> Findings:
    """Ray requires a token.

    Why: Anyone who can reach Ray's dashboard or job port can run code on the cluster, unless token authentication is on. It is off
    by default.
    Remedy: set authOptions.mode: token in the spec of the Ray cluster.
    """
    cluster = ray.at(*RAY_CLUSTERS[ray.kind])
    mode = cluster.at("authOptions", "mode")
    # A RayJob without a cluster of its own runs on one that is there already.
    if mode.text() != "token" and not (ray.short_kind == "RayJob" and cluster.absent):
        yield found(mode, "is not token")


@resource_rule(objects(*RAY_CLUSTERS), Severity.CRITICAL, "inference", "Ray: Security", "CVE-2023-48022")
def ray_restrict_doors(ray: Resource, _: Parameters) -> Findings:
    """Ray is reached through the gateway and runs only code from its image.

    Why: Anyone who can reach the Ray head can run jobs on every worker. A runtime environment downloads code that is not pinned.
    Remedy: use Services of type ClusterIP without enableIngress, build packages and code into the image, and remove
    trust_remote_code from serveConfigV2.
    """
    yield from (found(place, problem) for place, problem in doors(ray))
    yield from (found(place, problem) for place, problem in brought(ray))


KINDS = ("RayService", "RayCluster")


@stack_rule(Severity.HIGH)
def stack_disallow_scaler_of_ray(stack: Stack, _: Parameters) -> Findings:
    """No pod autoscaler scales a Ray cluster.

    Why: Serve's autoscaling_config sets Ray's replicas and KubeRay its nodes. A third autoscaler works against both.
    Remedy: remove the HPA or ScaledObject; set autoscaling_config in the application, and enableInTreeAutoscaling for nodes.
    """
    for scaler in stack.of(*SCALERS):
        with stack.doubts:
            kind = scaler.at("spec", "scaleTargetRef", "kind")
            if kind.text() in KINDS:
                yield found(kind, "cannot be scaled by its number of pods", urn=scaler.urn)
