"""Applications and deployments of Ray Serve, and the `serveConfigV2` that they become. Ray's words in camelCase; no Kubernetes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, NonNegativeFloat, PositiveFloat, PositiveInt, StringConstraints, model_validator

from components.serving.served_model import EnvName
from components.spec import Spec
from components.storage.spec import RelativePath

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
ApplicationName = Annotated[str, StringConstraints(pattern=_NAME, max_length=64), Field(description="The name of a Serve application.")]
DeploymentName = Annotated[
    str, StringConstraints(pattern=_NAME, max_length=128), Field(description="The name of a deployment, as the application's code has it.")
]
ImportPath = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$", max_length=256),
    Field(description="Where the application is in its code: module:attribute."),
]
# Serve's own routes live under /-/; braces would be taken for parameters.
RoutePrefix = Annotated[
    str,
    StringConstraints(pattern=r"^/([A-Za-z0-9_][A-Za-z0-9_.~-]*(/[A-Za-z0-9_][A-Za-z0-9_.~-]*)*)?$", max_length=200),
    Field(description="The path that the application answers under: / or /chat."),
]
RemoteArchive = Annotated[
    str,
    StringConstraints(pattern=r"^(s3|gs|https)://[^\s]+\.zip$", max_length=1000),
    Field(description="A zip archive that every node can fetch: s3://, gs:// or https://."),
]


class ServeAutoscaling(Spec):
    """How Serve scales the replicas of one deployment inside the workers that exist."""

    min_replicas: Annotated[int, Field(ge=0)] = 1
    """The fewest replicas."""
    initial_replicas: Annotated[int, Field(ge=0)] | None = None
    """Replicas at the start; by default the fewest."""
    max_replicas: PositiveInt
    """The most replicas."""
    target_ongoing_requests: PositiveFloat = 2
    """Requests under way at each replica that more replicas bring down to."""
    upscale_delay_seconds: NonNegativeFloat | None = None
    """How long load is high before replicas are added; by default Ray decides."""
    downscale_delay_seconds: NonNegativeFloat | None = None
    """How long load is low before replicas are removed; by default Ray decides."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        initial = self.min_replicas if self.initial_replicas is None else self.initial_replicas
        if not self.min_replicas <= initial <= self.max_replicas:
            raise ValueError(
                f"minReplicas {self.min_replicas}, initialReplicas {initial}, maxReplicas {self.max_replicas} are not in rising order; mend them"
            )
        return self


class ServeDeployment(Spec):
    """What one deployment of an application gets, over what its code says."""

    num_replicas: PositiveInt | Literal["auto"] | None = None
    """Replicas, or auto for Ray's own scaling; by default what the code says."""
    autoscaling: ServeAutoscaling | None = None
    max_ongoing_requests: PositiveInt | None = None
    """Requests under way at one replica at most; by default what the code says."""
    max_queued_requests: PositiveInt | None = None
    """Requests that wait at each caller; further ones are refused. By default there is no bound."""
    cpus: NonNegativeFloat | None = None
    """CPU that Ray counts for each replica; by default what the code says."""
    accelerators: NonNegativeFloat | None = None
    """Cards of each replica; a fraction shares a card."""
    user_config: dict[str, JsonValue] | None = None
    """What the deployment's `reconfigure` is called with; a change of it restarts no replica."""
    max_replicas_per_node: Annotated[int, Field(ge=1, le=100)] | None = None
    """Replicas on one worker pod at most."""
    health_check_period_seconds: PositiveFloat | None = None
    """How often each replica is asked whether it is well; by default Ray decides."""
    health_check_timeout_seconds: PositiveFloat | None = None
    """How long the answer may take; by default Ray decides."""
    graceful_shutdown_timeout_seconds: NonNegativeFloat | None = None
    """How long a stopping replica may finish running requests; by default Ray decides."""

    @model_validator(mode="after")
    def _one_says_how_many(self) -> Self:
        if isinstance(self.num_replicas, int) and self.autoscaling is not None:
            raise ValueError(f"numReplicas is {self.num_replicas} and autoscaling changes it; write one of them, or numReplicas: auto")
        return self

    @model_validator(mode="after")
    def _cards_are_whole_or_a_share(self) -> Self:
        if self.accelerators is not None and self.accelerators > 1 and self.accelerators % 1:
            raise ValueError(f"accelerators is {self.accelerators}; above one card Ray gives whole cards, write a whole number")
        return self

    @property
    def most_replicas(self) -> int:
        """The most replicas that there may be."""
        if self.autoscaling is not None:
            return self.autoscaling.max_replicas
        return self.num_replicas if isinstance(self.num_replicas, int) else 1


class _Application(Spec):
    route_prefix: RoutePrefix = "/"
    env: dict[EnvName, str] = {}
    """Variables of the application's own processes, in clear; never a secret."""
    pip: list[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[A-Za-z0-9.+!_-]+$")]] = []
    """Packages that Ray installs before the application starts, each with its exact version."""


class CustomApplication(_Application):
    """An application of your own."""

    kind: Literal["custom"]
    import_path: ImportPath
    working_dir: RemoteArchive | None = None
    """The archive that holds the code; by default it is part of the image."""
    args: dict[str, JsonValue] = {}
    """Arguments of the application's builder."""
    checkpoint_path: RelativePath | None = None
    """A checkpoint below the weights' directory; the builder gets its place as `checkpoint_path`."""
    base_model: RelativePath | None = None
    """The model that a checkpoint or an adapter belongs to, below the weights' directory; the builder gets it as `base_model`."""
    adapter: RelativePath | None = None
    """An adapter below the weights' directory; the builder gets it as `adapter`."""
    deployments: dict[DeploymentName, ServeDeployment] = {}

    @model_validator(mode="after")
    def _places_are_named_once(self) -> Self:
        twice = sorted(set(self.args) & {key for key in ("checkpoint_path", "base_model", "adapter") if getattr(self, key)})
        if twice:
            raise ValueError(f"args repeats {', '.join(twice)}, which has a field of its own; remove it from args")
        return self


class LlmApplication(_Application):
    """Ray's own OpenAI-compatible application for the model of this service, with vLLM behind it."""

    kind: Literal["llm"]
    model_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)] | None = None
    """The name that clients send as `model`; by default the service's key in this file."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """Cards that each layer is split over."""
    max_model_len: PositiveInt | None = None
    """Context length in tokens; by default the model's own."""
    engine_kwargs: dict[str, JsonValue] = {}
    """Further arguments of the engine, as vLLM spells them."""
    autoscaling: ServeAutoscaling | None = None

    @model_validator(mode="after")
    def _arguments_repeat_no_field(self) -> Self:
        taken = sorted({"tensor_parallel_size", "max_model_len", "model", "trust_remote_code"} & set(self.engine_kwargs))
        if taken:
            raise ValueError(f"engineKwargs may not hold {', '.join(taken)}; a field sets it, or it runs code from the model's repository")
        return self


AnyApplication = Annotated[CustomApplication | LlmApplication, Field(discriminator="kind")]


def serve_config(name: str, applications: dict[str, AnyApplication], *, weights: str, card: str) -> dict[str, Any]:
    """The `serveConfigV2` of service `name`; `card` is what Ray calls an accelerator (`GPU` or `HPU`), `weights` the files' directory."""
    written = [
        _custom(key, each, weights, card) if isinstance(each, CustomApplication) else _llm(key, each, name, weights)
        for key, each in applications.items()
    ]
    # KubeRay's serve service leaves the head out, so that a proxy runs on every worker.
    return {"proxy_location": "EveryNode", "http_options": {"host": "0.0.0.0", "port": 8000}, "applications": written}  # noqa: S104 - the pod's own address; a NetworkPolicy stands before it


def _custom(key: str, app: CustomApplication, weights: str, card: str) -> dict[str, Any]:
    places = {field: getattr(app, field) for field in ("checkpoint_path", "base_model", "adapter")}
    args = {**app.args, **{field: f"{weights}/{path}" for field, path in places.items() if path}}
    written: dict[str, Any] = {"name": key, "route_prefix": app.route_prefix, "import_path": app.import_path}
    written |= {"args": args} if args else {}
    written |= _runtime(app, app.working_dir)
    if app.deployments:
        written["deployments"] = [_deployment(each, settings, card) for each, settings in app.deployments.items()]
    return written


def _llm(key: str, app: LlmApplication, service: str, weights: str) -> dict[str, Any]:
    engine = {"tensor_parallel_size": app.tensor_parallel_size, **app.engine_kwargs}
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


def _runtime(app: _Application, working_dir: str | None) -> dict[str, Any]:
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
