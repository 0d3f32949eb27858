"""Builds the `serveConfigV2` of a service's applications, with Ray's names (ray/serve/schema.py,
2.60).
"""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from inferplan.components.serving.ray_serve.applications import (
    AnyApplication,
    CustomApplication,
    LlmApplication,
    ServeAutoscaling,
    ServeDeployment,
)


def serve_config(
    name: str, applications: dict[str, AnyApplication], *, weights: str, resource: str
) -> dict[str, Any]:
    """Return the `serveConfigV2` of service `name`; `resource` is Ray's name of an accelerator
    (`GPU` or `HPU`), `weights` the files' directory.
    """
    written = [
        (
            _custom(key, each, weights, resource)
            if isinstance(each, CustomApplication)
            else _llm(key, each, name, weights)
        )
        for key, each in applications.items()
    ]
    # KubeRay's serve service leaves the head out, so that a proxy runs on every worker.
    return {
        "proxy_location": "EveryNode",
        "http_options": {
            "host": "0.0.0.0",  # noqa: S104 - the pod's own address; a NetworkPolicy protects it
            "port": 8000,
        },
        "applications": written,
    }


def _custom(key: str, app: CustomApplication, weights: str, resource: str) -> dict[str, Any]:
    args = {**app.args, **{argument: f"{weights}/{path}" for argument, path in app.paths.items()}}
    written: dict[str, Any] = {
        "name": key,
        "route_prefix": app.route_prefix,
        "import_path": app.import_path,
    }
    written |= {"args": args} if args else {}
    written |= _runtime(app, app.working_dir)
    if app.deployments:
        written["deployments"] = [
            _deployment(each, settings, resource) for each, settings in app.deployments.items()
        ]
    return written


def _llm(key: str, app: LlmApplication, service: str, weights: str) -> dict[str, Any]:
    engine = {"tensor_parallel_size": app.tensor_parallel_size, **app.engine_kwargs}
    if app.pipeline_parallel_size > 1:
        engine["pipeline_parallel_size"] = app.pipeline_parallel_size
    if app.max_model_len is not None:
        engine["max_model_len"] = app.max_model_len
    config: dict[str, Any] = {
        "model_loading_config": {"model_id": app.model_id or service, "model_source": weights},
        "engine_kwargs": engine,
    }
    if app.autoscaling is not None:
        config["deployment_config"] = {"autoscaling_config": _autoscaling(app.autoscaling)}
    written = {
        "name": key,
        "route_prefix": app.route_prefix,
        "import_path": "ray.serve.llm:build_openai_app",
        "args": {"llm_configs": [config]},
    }
    return written | _runtime(app, None)


def _runtime(app: AnyApplication, working_dir: str | None) -> dict[str, Any]:
    runtime = {
        "working_dir": working_dir,
        "env_vars": dict(sorted(app.env.items())),
        "pip": app.pip,
    }
    values = {key: value for key, value in runtime.items() if value}
    return {"runtime_env": values} if values else {}


# Fields of our specs; Ray ends `_seconds` with `_s`.
_FIELDS = (
    *(
        "num_replicas",
        "max_ongoing_requests",
        "max_queued_requests",
        "user_config",
        "max_replicas_per_node",
    ),
    *(
        "health_check_period_seconds",
        "health_check_timeout_seconds",
        "graceful_shutdown_timeout_seconds",
    ),
)


def _renamed(settings: BaseModel, fields: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(settings, name) for name in fields}
    return {
        name.replace("_seconds", "_s"): value for name, value in values.items() if value is not None
    }


def _deployment(name: str, settings: ServeDeployment, resource: str) -> dict[str, Any]:
    written: dict[str, Any] = {"name": name, **_renamed(settings, _FIELDS)}
    if settings.autoscaling is not None:
        written["autoscaling_config"] = _autoscaling(settings.autoscaling)
    actor: dict[str, Any] = {} if settings.cpus is None else {"num_cpus": settings.cpus}
    if settings.accelerators is not None:
        actor |= (
            {"num_gpus": settings.accelerators}
            if resource == "GPU"
            else {"resources": {resource: settings.accelerators}}
        )
    return {**written, "ray_actor_options": actor} if actor else written


def _autoscaling(settings: ServeAutoscaling) -> dict[str, Any]:
    return _renamed(settings, ServeAutoscaling.model_fields)
