"""Ray clusters."""

import re
from collections.abc import Iterator
from typing import Any

from inferplan.kube.pod_templates import RAY_CLUSTERS
from inferplan.policies.engine.fields import Field, MalformedFieldError, maps_in
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.placement import queue_of
from inferplan.policies.subjects.pods import IMAGES
from inferplan.policies.subjects.programs import at_least, image_of
from inferplan.policies.subjects.secret_texts import SHAPES
from inferplan.policies.subjects.workloads import SCALERS

MAX_GROUPS = 17
RAY_VERSION = re.compile(r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
SCALED_BY_RAY = ("RayService", "RayCluster")
_OUTSIDE = ("LoadBalancer", "NodePort")
# Keys of a runtime environment that install, import or fetch code that is not in the image (Ray:
# "Handling dependencies", read 2026-11-22).
_INSTALLS = (
    "pip",
    "uv",
    "conda",
    "image_uri",
    "container",
    "worker_process_setup_hook",
    "java_jars",
)
_FETCHES = ("working_dir", "py_modules", "py_executable")


@resource_rule(objects(*RAY_CLUSTERS))
def ray_limit_queued_groups(ray: Resource, _: Parameters) -> Violations:
    if not queue_of(ray).text():
        return
    cluster = ray.at(*RAY_CLUSTERS[ray.kind])
    yield from violations(
        cluster.at("enableInTreeAutoscaling"), Field.flag, "is enabled in a queued cluster"
    )
    groups = cluster.at("workerGroupSpecs")
    yield from violations(
        groups,
        lambda field: len(list(field.each())) > MAX_GROUPS,
        f"has more than {MAX_GROUPS} groups",
    )
    yield from violations(
        groups.select("*", "groupName"),
        lambda name: name.text() == "head",
        "is reserved for the head",
    )


@resource_rule(IMAGES)
def ray_require_floor(field: Field, parameters: Parameters) -> Violations:
    image = image_of(field)
    if "rayproject/" in image.name or image.base == "ray" or image.base.startswith("ray-"):
        match = RAY_VERSION.match(image.tag)
        if match is None or not at_least(match.group(1), parameters["version"]):
            yield violation(field, f"is not Ray {parameters['version']} or newer")


@resource_rule(objects(*RAY_CLUSTERS))
def ray_require_token(ray: Resource, _: Parameters) -> Violations:
    cluster = ray.at(*RAY_CLUSTERS[ray.kind])
    mode = cluster.at("authOptions", "mode")
    # A RayJob without a cluster spec runs on an existing cluster.
    if mode.text() != "token" and not (ray.short_kind == "RayJob" and cluster.absent):
        yield violation(mode, "is not token")


@resource_rule(objects(*RAY_CLUSTERS))
def ray_restrict_doors(ray: Resource, _: Parameters) -> Violations:
    head = ray.at(*RAY_CLUSTERS[ray.kind], "headGroupSpec")
    types = (
        head.at("serviceType"),
        head.at("headService", "spec", "type"),
        ray.at("spec", "serveService", "spec", "type"),
    )
    yield from violations(
        types,
        lambda field: field.text() in _OUTSIDE,
        "exposes Ray outside the cluster, past the gateway",
    )
    yield from violations(
        head.at("enableIngress"),
        Field.flag,
        "exposes the dashboard, which can run jobs, outside the cluster",
    )
    password = head.at("rayStartParams", "redis-password")
    yield from violations(
        password,
        lambda field: field.text() and not field.text().startswith("$"),
        "is a password in plain text",
    )
    for field in (ray.at("spec", "serveConfigV2"), ray.at("spec", "runtimeEnvYAML")):
        if field.text():
            yield from violations(
                field,
                lambda field: SHAPES.search(field.text()),
                "contains something that looks like a key",
            )
            yield from (
                violation(field, problem) for problem in dict.fromkeys(_problems(_read(field)))
            )


@stack_rule
def stack_disallow_scaler_of_ray(stack: Stack, _: Parameters) -> Violations:
    for scaler in stack.of(*SCALERS):
        with stack.unreadable:
            kind = scaler.at("spec", "scaleTargetRef", "kind")
            if kind.text() in SCALED_BY_RAY:
                yield violation(kind, "cannot be scaled by its number of pods")


def _read(field: Field) -> Any:
    import yaml

    try:
        document = yaml.safe_load(field.text())
    except yaml.YAMLError:
        raise MalformedFieldError(field, "a YAML document") from None
    if not isinstance(document, dict):
        raise MalformedFieldError(field, "a YAML document")
    # runtimeEnvYAML of a job is the runtime environment itself.
    return {"runtime_env": document} if field.keys[-1] == "runtimeEnvYAML" else document


def _problems(document: dict[str, Any]) -> Iterator[str]:
    for map_ in maps_in(document):
        environment = map_.get("runtime_env")
        if isinstance(environment, dict):
            if any(environment.get(name) for name in _INSTALLS):
                yield "installs or imports code that is not in the image"
            if any("://" in str(environment.get(name)) for name in _FETCHES):
                yield "fetches code that is not in the image"
        if any(
            str(map_.get(name)).lower() in ("true", "1", "yes")
            for name in ("trust_remote_code", "trustRemoteCode")
        ):
            yield "lets the model's files run as code"
