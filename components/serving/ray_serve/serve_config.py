"""The `serveConfigV2` that a service's applications become, in Ray's own words (ray/serve/schema.py, 2.60). It judges nothing."""

from __future__ import annotations

from typing import Any

from components.serving.ray_serve.applications import (
    AnyApplication,
    CustomApplication,
    LlmApplication,
    ServeAutoscaling,
    ServeDeployment,
)


def serve_config(name: str, applications: dict[str, AnyApplication], *, weights: str, card: str) -> dict[str, Any]:
    """The `serveConfigV2` of service `name`; `card` is what Ray calls an accelerator (`GPU` or `HPU`), `weights` the files' directory."""
    written = [
        _custom(key, each, weights, card) if isinstance(each, CustomApplication) else _llm(key, each, name, weights)
        for key, each in applications.items()
    ]
    # KubeRay's serve service leaves the head out, so that a proxy runs on every worker.
    return {"proxy_location": "EveryNode", "http_options": {"host": "0.0.0.0", "port": 8000}, "applications": written}  # noqa: S104 - the pod's own address; a NetworkPolicy stands before it


def _custom(key: str, app: CustomApplication, weights: str, card: str) -> dict[str, Any]:
    args = {**app.args, **{argument: f"{weights}/{path}" for argument, path in app.paths.items()}}
    written: dict[str, Any] = {"name": key, "route_prefix": app.route_prefix, "import_path": app.import_path}
    written |= {"args": args} if args else {}
    written |= _runtime(app, app.working_dir)
    if app.deployments:
        written["deployments"] = [_deployment(each, settings, card) for each, settings in app.deployments.items()]
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
    runtime = {"working_dir": working_dir, "env_vars": dict(sorted(app.env.items())), "pip": app.pip}
    given = {key: value for key, value in runtime.items() if value}
    return {"runtime_env": given} if given else {}


_RENAMED = {
    "num_replicas": "num_replicas",
    "max_ongoing_requests": "max_ongoing_requests",
    "max_queued_requests": "max_queued_requests",
    "user_config": "user_config",
    "max_replicas_per_node": "max_replicas_per_node",
    "health_check_period_seconds": "health_check_period_s",
    "health_check_timeout_seconds": "health_check_timeout_s",
    "graceful_shutdown_timeout_seconds": "graceful_shutdown_timeout_s",
}


def _deployment(name: str, settings: ServeDeployment, card: str) -> dict[str, Any]:
    written: dict[str, Any] = {"name": name}
    written |= {theirs: getattr(settings, ours) for ours, theirs in _RENAMED.items() if getattr(settings, ours) is not None}
    if settings.autoscaling is not None:
        written["autoscaling_config"] = _autoscaling(settings.autoscaling)
    actor: dict[str, Any] = {} if settings.cpus is None else {"num_cpus": settings.cpus}
    if settings.accelerators is not None:
        actor |= {"num_gpus": settings.accelerators} if card == "GPU" else {"resources": {card: settings.accelerators}}
    return {**written, "ray_actor_options": actor} if actor else written


def _autoscaling(settings: ServeAutoscaling) -> dict[str, Any]:
    written = {
        "min_replicas": settings.min_replicas,
        "initial_replicas": settings.initial_replicas,
        "max_replicas": settings.max_replicas,
        "target_ongoing_requests": settings.target_ongoing_requests,
        "upscale_delay_s": settings.upscale_delay_seconds,
        "downscale_delay_s": settings.downscale_delay_seconds,
    }
    return {key: value for key, value in written.items() if value is not None}
