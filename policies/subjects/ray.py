"""Ray clusters, services and jobs: where they open a door, and what their runtime environments bring along. It starts no Ray."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.engine.fields import Field, MalformedFieldError
from policies.engine.resource import Resource
from policies.subjects.keys import SHAPES
from policies.subjects.pods import RAY_CLUSTERS

_OUTSIDE = ("LoadBalancer", "NodePort")
# Parts of a runtime environment that install or import other code than the image's (Ray: "Handling dependencies", read 2026-11-22).
_INSTALLS = ("pip", "uv", "conda", "image_uri", "container", "worker_process_setup_hook", "java_jars")
_FETCHES = ("working_dir", "py_modules", "py_executable")


def doors(ray: Resource) -> Iterator[tuple[Field, str]]:
    """The fields that expose Ray outside the cluster, and the problem. Raises FieldError."""
    cluster = ray.at(*RAY_CLUSTERS[ray.kind])
    head = cluster.at("headGroupSpec")
    places = (head.at("serviceType"), head.at("headService", "spec", "type"), ray.at("spec", "serveService", "spec", "type"))
    yield from ((place, "exposes Ray outside the cluster, past the gateway") for place in places if place.text() in _OUTSIDE)
    if head.at("enableIngress").flag():
        yield head.at("enableIngress"), "exposes the dashboard, which can run jobs, outside the cluster"
    password = head.at("rayStartParams").at("redis-password")
    if password.text() and not password.text().startswith("$"):
        yield password, "is a password in plain text"


def brought(ray: Resource) -> Iterator[tuple[Field, str]]:
    """The fields with code that is not in the image, or with keys. Raises FieldError."""
    for place in (ray.at("spec", "serveConfigV2"), ray.at("spec", "runtimeEnvYAML")):
        if not place.text():
            continue
        if SHAPES.search(place.text()):
            yield place, "contains something that looks like a key"
        yield from ((place, problem) for problem in dict.fromkeys(_problems(_read(place))))


def _read(place: Field) -> Any:
    import yaml

    try:
        told = yaml.safe_load(place.text())
    except yaml.YAMLError:
        raise MalformedFieldError(place, "a YAML document") from None
    if not isinstance(told, dict):
        raise MalformedFieldError(place, "a YAML document")
    # A runtime environment of a job stands alone, those of applications under their name.
    return {"runtime_env": told} if place.keys[-1] == "runtimeEnvYAML" else told


def _problems(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _problems(each)
    if not isinstance(value, dict):
        return
    environment = value.get("runtime_env")
    if isinstance(environment, dict):
        if any(environment.get(name) for name in _INSTALLS):
            yield "installs or imports code that is not in the image"
        fetched = (each for name in _FETCHES for each in _listed(environment.get(name)))
        if any("://" in str(each) for each in fetched):
            yield "fetches code that is not in the image"
    if any(str(value.get(name)).lower() in ("true", "1", "yes") for name in ("trust_remote_code", "trustRemoteCode")):
        yield "lets the model's files run as code"
    for each in value.values():
        yield from _problems(each)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
