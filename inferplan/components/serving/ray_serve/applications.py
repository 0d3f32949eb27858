"""The settings of applications and deployments of Ray Serve, of the cluster's head and of its
autoscaler, with Ray's names in camelCase.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    JsonValue,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from inferplan.components.handles import ServeRoute
from inferplan.components.serving.parallel import ParallelSizes
from inferplan.components.serving.pod_settings import EnvName
from inferplan.components.serving.vllm.engine_args import DECIDED, reject_arguments
from inferplan.components.spec import Bytes, Cpu, DnsName, Spec, rule
from inferplan.components.stores import RelativePath

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
ApplicationName = Annotated[
    str,
    StringConstraints(pattern=_NAME, max_length=64),
    Field(description="The name of a Serve application."),
]
DeploymentName = Annotated[
    str,
    StringConstraints(pattern=_NAME, max_length=128),
    Field(description="The name of a deployment in the application's code."),
]
ImportPath = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        max_length=256,
    ),
    Field(description="A module and its attribute that is the application (module:attribute)."),
]
# Serve's own routes are below /-/; braces would be parsed as parameters.
RoutePrefix = Annotated[
    str,
    StringConstraints(
        pattern=r"^/([A-Za-z0-9_][A-Za-z0-9_.~-]*(/[A-Za-z0-9_][A-Za-z0-9_.~-]*)*)?$",
        max_length=200,
    ),
    Field(description="The path of the application, for example / or /chat."),
]
RemoteArchive = Annotated[
    str,
    StringConstraints(pattern=r"^(s3|gs|https)://[^\s]+\.zip$", max_length=1000),
    Field(description="A zip archive that every node can fetch: s3://, gs:// or https://."),
]

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")]
# Credentials, identity, and headers that frame or route a request.
_SET_BY_GATEWAY = re.compile(
    r"authorization|cookie2?|host|x-api-key|x-consumer.*|x-request-id|x-model|forwarded|via|x-forwarded.*|x-real-ip|x-remote-.*|x-user.*"
    r"|x-original-.*|x-rewrite-.*|x-accel.*|x-http-method.*|x-method-override|triton-.*|connection|upgrade|keep-alive|te|trailer"
    r"|transfer-encoding|content-length|content-range|expect|range|http2-settings|proxy-.*|sec-.*|serve-.*|x-serve-.*"
)
_ALWAYS_FORWARDED = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-type",
        "traceparent",
        "tracestate",
        "user-agent",
    }
)


class ServeAutoscaling(Spec):
    """Scaling of the replicas of one deployment by Serve, inside the existing workers."""

    min_replicas: Annotated[int, Field(ge=0)] = 1
    """Minimum number of replicas."""
    initial_replicas: Annotated[int, Field(ge=0)] | None = None
    """Replicas at the start. Default: minReplicas."""
    max_replicas: PositiveInt
    """Maximum number of replicas."""
    target_ongoing_requests: PositiveFloat = 2
    """Target of running requests at each replica."""
    upscale_delay_seconds: NonNegativeFloat | None = None
    """Time of high load before replicas are added. Default: Ray decides."""
    downscale_delay_seconds: NonNegativeFloat | None = None
    """Time of low load before replicas are removed. Default: Ray decides."""

    @rule
    def _bounds_are_in_order(self) -> Iterator[str]:
        initial = self.min_replicas if self.initial_replicas is None else self.initial_replicas
        if not self.min_replicas <= initial <= self.max_replicas:
            yield (
                f"minReplicas {self.min_replicas}, initialReplicas {initial}, maxReplicas"
                f" {self.max_replicas} are not in rising order. Correct them"
            )


class ServeDeployment(Spec):
    """Settings of one deployment of an application, which override those of its code."""

    num_replicas: PositiveInt | Literal["auto"] | None = None
    """Replicas, or auto for Ray's own scaling. Default: the code's."""
    autoscaling: ServeAutoscaling | None = None
    max_ongoing_requests: PositiveInt | None = None
    """Maximum running requests at one replica. Default: the code's."""
    max_queued_requests: PositiveInt | None = None
    """Maximum waiting requests at each caller; further ones are rejected. Default: unlimited."""
    cpus: NonNegativeFloat | None = None
    """CPU that Ray counts for each replica. Default: the code's."""
    accelerators: NonNegativeFloat | None = None
    """Accelerators of each replica; a fraction shares an accelerator."""
    user_config: dict[str, JsonValue] | None = None
    """The argument of the deployment's `reconfigure`. A change restarts no replica."""
    max_replicas_per_node: Annotated[int, Field(ge=1, le=100)] | None = None
    """Maximum replicas on one worker pod."""
    health_check_period_seconds: PositiveFloat | None = None
    """Interval of health checks of each replica. Default: Ray decides."""
    health_check_timeout_seconds: PositiveFloat | None = None
    """Timeout of a health check. Default: Ray decides."""
    graceful_shutdown_timeout_seconds: NonNegativeFloat | None = None
    """Time that a stopping replica has to finish running requests. Default: Ray decides."""

    @rule
    def _numbers_are_clear(self) -> Iterator[str]:
        if isinstance(self.num_replicas, int) and self.autoscaling is not None:
            yield (
                f"numReplicas is {self.num_replicas} and autoscaling changes it. Write one of them,"
                " or numReplicas: auto."
            )
        if self.accelerators is not None and self.accelerators > 1 and self.accelerators % 1:
            yield (
                f"accelerators is {self.accelerators}; above 1, Ray assigns whole accelerators."
                " Write a whole number"
            )

    @property
    def most_replicas(self) -> int:
        if self.autoscaling is not None:
            return self.autoscaling.max_replicas
        return self.num_replicas if isinstance(self.num_replicas, int) else 1


class _Application(Spec):
    route_prefix: RoutePrefix = "/"
    env: dict[EnvName, str] = {}
    """Variables of the application's own processes in plain text; never a secret."""
    pip: list[
        Annotated[
            str,
            StringConstraints(pattern=r"^[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[A-Za-z0-9.+!_-]+$"),
        ]
    ] = []
    """Packages that Ray installs before the application starts, each with its exact version."""


class CustomApplication(_Application):
    """An application of your own."""

    kind: Literal["custom"]
    import_path: ImportPath
    working_dir: RemoteArchive | None = None
    """The URL of a .zip archive with the code (https:// or s3://). Default: the code is part of the
    image.
    """
    args: dict[str, JsonValue] = {}
    """Arguments of the application's builder."""
    checkpoint_path: RelativePath | None = None
    """A checkpoint below the weights' directory; the builder gets its path as `checkpoint_path`."""
    base_model: RelativePath | None = None
    """The base model of a checkpoint or an adapter, below the weights' directory; the builder gets
    its path as `base_model`.
    """
    adapter: RelativePath | None = None
    """An adapter below the weights' directory; the builder gets its path as `adapter`."""
    deployments: dict[DeploymentName, ServeDeployment] = {}
    methods: Annotated[
        list[Literal["GET", "POST", "PUT", "PATCH", "DELETE"]], Field(max_length=5)
    ] = ["POST"]
    """The HTTP methods that clients may call through the gateway."""
    web_socket: bool = False
    """Lets clients open WebSockets through the gateway."""
    headers: Annotated[list[HeaderName], Field(max_length=32)] = []
    """Request headers that the gateway forwards, in addition to Accept, Content-Type, Traceparent
    and the like.
    """

    @property
    def route(self) -> ServeRoute:
        return ServeRoute(
            prefix=self.route_prefix,
            methods=tuple(dict.fromkeys(self.methods)),
            web_socket=self.web_socket,
            headers=tuple(self.headers),
        )

    @field_validator("headers")
    @classmethod
    def _headers_are_the_clients_to_set(cls, headers: list[str]) -> list[str]:
        if ours := [name for name in headers if _SET_BY_GATEWAY.fullmatch(name.lower())]:
            raise ValueError(
                f"{', '.join(ours)} is set or removed by the gateway, and clients cannot send it."
                " Remove it from headers"
            )
        if always := [name for name in headers if name.lower() in _ALWAYS_FORWARDED]:
            raise ValueError(f"{', '.join(always)} is always forwarded. Remove it from headers")
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError(
                "headers lists a name twice; case does not matter. List each name once"
            )
        return headers

    @property
    def paths(self) -> dict[str, str]:
        """The paths below the weights' directory, by the argument that the builder gets."""
        fields = {
            "checkpoint_path": self.checkpoint_path,
            "base_model": self.base_model,
            "adapter": self.adapter,
        }
        return {argument: path for argument, path in fields.items() if path}

    @rule
    def _calls_and_arguments_are_clear(self) -> Iterator[str]:
        if not self.methods and not self.web_socket:
            yield (
                "methods is empty and webSocket is false, so no client can call the application."
                " Add a method"
            )
        if twice := sorted(set(self.args) & set(self.paths)):
            yield (
                f"args repeats {', '.join(twice)}, which has a field of its own. Remove it from"
                " args."
            )


_FIELDS = ("tensor_parallel_size", "pipeline_parallel_size", "max_model_len")
_DECIDED = {
    **{
        name: DECIDED[name]
        for name in ("model", "trust_remote_code", "hf_token", "prefill_context_parallel_size")
    },
    "data_parallel_size": "autoscaling decides the number of replicas",
}


class LlmApplication(ParallelSizes, _Application):
    """Ray's own OpenAI-compatible application for the model of this service, with vLLM as its
    engine.
    """

    kind: Literal["llm"]
    model_id: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)]
        | None
    ) = None
    """The name that clients send as `model`. Default: the service's key in this file."""
    max_model_len: PositiveInt | None = None
    """Context length in tokens. Default: the model's own."""
    engine_kwargs: dict[str, JsonValue] = {}
    """Further arguments of the engine, as vLLM spells them."""
    autoscaling: ServeAutoscaling | None = None

    @model_validator(mode="after")
    def _arguments_repeat_no_field(self) -> Self:
        reject_arguments("engineKwargs", sorted(self.engine_kwargs), _DECIDED, fields=_FIELDS)
        return self


AnyApplication = Annotated[CustomApplication | LlmApplication, Field(discriminator="kind")]

IDLE_SECONDS = 60


class WorkerAutoscaling(Spec):
    """Ray's own autoscaler of worker pods, between `replicas` and this."""

    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    """Maximum number of worker pods."""
    idle_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = IDLE_SECONDS
    """Seconds that a worker is idle before it is removed."""


class GcsFaultTolerance(Spec):
    """Keeps the cluster's state in Redis, so that workers continue to serve while the head is
    replaced.
    """

    redis_address: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9.-]+:[1-9][0-9]{0,4}$", max_length=260)
    ]
    """host:port."""
    password_secret: DnsName | None = None
    """A Secret of the inference namespace with the key `password`."""

    @property
    def redis(self) -> tuple[str, int]:
        host, _, port = self.redis_address.rpartition(":")
        return host, int(port)


class HeadResources(Spec):
    """The requests of the head, which has no accelerator and serves no request."""

    cpu: Cpu = "2"
    """CPU of the head."""
    memory: Bytes = "8Gi"
    """Memory of the head."""
