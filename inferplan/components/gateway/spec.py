"""The settings of the gateway, a union by `implementation`: the API address, how clients reach it,
and what checks the keys.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, StringConstraints, Tag

from inferplan.components.balancers import BalancerSpec
from inferplan.components.gateway.exposure_spec import (
    Access,
    ExposureFields,
    GatewayApiAccess,
    GatewayParent,
    IngressAccess,
    PublicHost,
    TlsSpec,
    access_of,
    gateway_api_access,
)
from inferplan.components.gateway.exposure_spec import errors as exposure_errors
from inferplan.components.spec import Bytes, Network, PinnedImage, Spec, checked, rule
from inferplan.images.catalogue import default_image
from inferplan.kube.facts import GatewayFacts
from inferplan.kube.names import EPHEMERAL_STORAGE
from inferplan.kube.quantity import bytes_of

DEFAULT_IMAGE = default_image("gateway")
PROXY_REQUESTS = {"cpu": "250m", "memory": "128Mi", EPHEMERAL_STORAGE: "64Mi"}
# From the sources of Envoy Gateway v1.9, read 2026-08.
ENVOY_DIFFERENCES = (
    (
        "the Envoy Gateway reads every valid key in plain text from the Secret gateway-clients; the"
        " nginx gateway stores only hashes"
    ),
    (
        "Envoy calls its API key filter work in progress and excludes it from its threat model"
        " (warning at start, 1.40)"
    ),
    "each model has its own base URL: /v1 for every model and public routes need the nginx gateway",
    (
        "a model without permission answers 403 and an unknown one 404, where the nginx gateway"
        " answers 404 to both"
    ),
    (
        "calls to unlisted routes get 404 before any key is checked, and error messages are"
        " Envoy's, not those of the OpenAI API"
    ),
    (
        "if a call has two different keys, the one in Authorization is used; the server receives"
        " the key id (chat_2), not the consumer's name"
    ),
    "query strings and unlisted headers reach the servers; known identity headers are removed",
    (
        "body size, request rates, the access log and connection draining are configured on the"
        " Gateway, not in this stack"
    ),
)


def _reject_wildcard(origin: str) -> Iterator[str]:
    if origin == "*":
        yield (
            "Origin '*' would let any web page use a visitor's key. List the origins, for example"
            " https://chat.acme.example."
        )


# Scheme, host and port only: a browser never sends a path, and nginx must not receive quotes or
# dollar signs.
Origin = Annotated[
    str,
    checked(_reject_wildcard),
    StringConstraints(
        pattern=r"^(\*|https?://[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?)$",
        max_length=270,
    ),
    Field(
        description=(
            "A web origin: scheme and host in lower case without a path, for example"
            " https://chat.acme.example."
        )
    ),
]


def _reject_every_network(network: str) -> Iterator[str]:
    if network.endswith("/0"):
        yield (
            f"{network} would let every client state any address. List the networks of the proxies"
            " only, for example 10.0.1.0/24."
        )


TrustedNetwork = Annotated[Network, checked(_reject_every_network)]


class CorsSpec(Spec):
    """Web pages that may call the gateway from a browser. Default: none."""

    origins: Annotated[list[Origin], Field(min_length=1, max_length=100)]


class AutoscalingSpec(Spec):
    """Scales the gateway's replicas by CPU utilization. `replicas` is then the minimum."""

    max_replicas: Annotated[int, Field(ge=2, le=100)]
    """Maximum number of replicas."""
    cpu_percent: Annotated[int, Field(ge=10, le=95)] = 70
    """Target average CPU utilization, in percent of the CPU request."""


class GatewayFields(Spec):
    """Settings and capabilities that every gateway implementation has."""

    enforces_expiry: ClassVar[bool] = False
    """Denies a key after its last valid day."""
    enforces_limits: ClassVar[bool] = False
    """Enforces the limits of consumers."""
    hashes_keys: ClassVar[bool] = False
    """Compares hashes, so it does not store keys in plain text."""
    matches_paths_by_pattern: ClassVar[bool] = False
    """Forwards calls whose paths contain arbitrary names; otherwise only calls that can be listed
    one by one.
    """
    runs_in_namespace: ClassVar[bool] = False
    """Runs as pods in the stack's namespace."""
    counts_requests: ClassVar[bool] = False
    """Reports the requests of each model to Prometheus."""
    has_public_routes: ClassVar[bool] = False
    """Reads the model from request bodies at /v1, and serves public routes there."""
    calls_routers: ClassVar[bool] = False
    """Calls the router of a model while it answers, and the model's Service else."""
    logs_consumers: ClassVar[bool] = False
    """Has an access log with the consumer of each request, and its id, which servers get too."""
    cors: CorsSpec | None = None
    read_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 2000
    """Read timeout: seconds without data from the model."""

    stated: ClassVar[Mapping[str, Any]] = {
        **{key: set(BalancerSpec.model_fields) for key in ("alb", "nlb")},
        "tls": set(TlsSpec.model_fields),
        "parent": set(GatewayParent.model_fields),
        "cors": {"origins"},
        "autoscaling": {"max_replicas", "cpu_percent"},
        "insecure": True,
        "ingress_class_name": True,
        "image": True,
    }

    @property
    def largest_body(self) -> float:
        """The size of the largest request in bytes."""
        return inf

    @property
    def access(self) -> Access:
        raise NotImplementedError

    @property
    def carries_grpc(self) -> bool:
        """True if gRPC calls pass."""
        return self.access.carries_grpc

    @property
    def facts(self) -> GatewayFacts:
        access, balancer = self.access, self.access.balancer
        capabilities = ("hashes_keys", "enforces_expiry", "enforces_limits", "counts_requests")
        return self.facts_as(
            GatewayFacts,
            entry_point=access.entry_point,
            host=access.host,
            scheme=access.url("").partition(":")[0],
            certificate=access.certificate,
            internet=balancer is not None and balancer.scheme == "internet-facing",
            networks=[] if balancer is None else balancer.inbound_cidrs or [],
            web_origins=[] if self.cors is None else self.cors.origins,
            **{name: getattr(self, name) for name in capabilities},
        )

    @property
    def pod_requests(self) -> list[Mapping[str, str]]:
        """The requests of each pod that the gateway starts; empty if it starts none."""
        return []

    @property
    def differences(self) -> tuple[str, ...]:
        """Notes for the plan: differences from the nginx implementation, and what is configured
        elsewhere, one sentence each.
        """
        return ()


class NginxGatewaySpec(ExposureFields, GatewayFields):
    """A gateway of nginx pods in the stack's namespace that check keys and forward calls."""

    enforces_expiry: ClassVar[bool] = True
    enforces_limits: ClassVar[bool] = True
    hashes_keys: ClassVar[bool] = True
    matches_paths_by_pattern: ClassVar[bool] = True
    runs_in_namespace: ClassVar[bool] = True
    counts_requests: ClassVar[bool] = True
    has_public_routes: ClassVar[bool] = True
    calls_routers: ClassVar[bool] = True
    logs_consumers: ClassVar[bool] = True

    implementation: Literal["nginx"] = "nginx"
    replicas: Annotated[int, Field(ge=1, le=100)] = 2
    """Number of nginx pods."""
    autoscaling: AutoscalingSpec | None = None
    image: PinnedImage = DEFAULT_IMAGE
    """An nginx image that runs as a non-root user and contains sh and awk."""
    drain_seconds: Annotated[int, Field(ge=1, le=86_400)] = 600
    """Seconds that a terminating pod has to finish running responses."""
    start_wait_seconds: Annotated[int, Field(ge=0, le=60)] = 0
    """Seconds that a request waits for a model without replicas to start. Default: the gateway
    answers 503 with Retry-After at once. A pod holds up to 64 requests with bodies of up to 1 MiB;
    others get the answer at once.
    """
    max_body_size: Bytes = "64Mi"
    """Maximum size of a request body. Prompts with images need more than text."""
    trusted_proxies: Annotated[list[TrustedNetwork], Field(max_length=50)] = []
    """Networks of the proxies in front, whose X-Forwarded-For states the client's address. The
    gateway then limits the requests of each address. Default: trust none.
    """

    @rule
    def _check_exposure(self) -> Iterator[str]:
        problems = " ".join(exposure_errors(self))
        if problems:
            yield problems

    @rule
    def _check_autoscaling(self) -> Iterator[str]:
        if self.autoscaling is not None and self.autoscaling.max_replicas < self.replicas:
            yield (
                f"autoscaling.maxReplicas ({self.autoscaling.max_replicas}) is less than replicas"
                f" ({self.replicas}). Raise maxReplicas."
            )

    @property
    def largest_body(self) -> float:
        """The size of the largest request in bytes."""
        return bytes_of(self.max_body_size)

    @property
    def pod_requests(self) -> list[Mapping[str, str]]:
        return [PROXY_REQUESTS] * self.replicas

    @property
    def differences(self) -> tuple[str, ...]:
        access, body = self.access, bytes_of(self.max_body_size)
        if not isinstance(access, IngressAccess) or access.alb is not None:
            return ()
        if access.limits(read_seconds=self.read_timeout_seconds, body_bytes=body):
            return ()
        return (
            (
                f"the controller of the {access.entry_point} has limits of its own, often 60 s without"
                f" data and 1 MB for a body. Set them to {self.read_timeout_seconds} s"
                f" (readTimeoutSeconds) and {self.max_body_size} (maxBodySize), or it cuts long answers"
                " and denies large prompts."
            ),
        )

    @rule
    def _check_waits(self) -> Iterator[str]:
        if self.start_wait_seconds > self.read_timeout_seconds:
            yield (
                f"startWaitSeconds ({self.start_wait_seconds}) is greater than readTimeoutSeconds"
                f" ({self.read_timeout_seconds}), after which proxies in front of the gateway close"
                " the connection. Raise readTimeoutSeconds, or lower startWaitSeconds."
            )

    @property
    def access(self) -> Access:
        return replace(access_of(self), path_prefix=self.path_prefix or "")

    @property
    def facts(self) -> GatewayFacts:
        limits = self.autoscaling
        return (
            super().facts
            if limits is None
            else replace(
                super().facts, max_replicas=limits.max_replicas, cpu_percent=limits.cpu_percent
            )
        )


class EnvoyGatewaySpec(GatewayFields):
    """Routes on a Gateway of an existing Envoy Gateway, whose proxies check the keys and run in
    their own namespace.
    """

    @property
    def differences(self) -> tuple[str, ...]:
        return ENVOY_DIFFERENCES

    implementation: Literal["envoyGateway"]
    exposure: Literal["gatewayApi"]
    """An HTTPRoute for each model on an existing Gateway."""
    host: PublicHost
    """DNS name that clients call."""
    parent: GatewayParent
    """The Gateway to attach to."""

    @property
    def access(self) -> GatewayApiAccess:
        return gateway_api_access(self.host, self.parent)

    @property
    def carries_grpc(self) -> bool:
        return False


def implementation(written: Any) -> str:
    """The tag that picks a variant of the union: the field `implementation`, nginx by default."""
    return str(
        written.get("implementation", "nginx")
        if isinstance(written, dict)
        else getattr(written, "implementation", "nginx")
    )


GatewaySpec: TypeAlias = Annotated[
    Annotated[NginxGatewaySpec, Tag("nginx")] | Annotated[EnvoyGatewaySpec, Tag("envoyGateway")],
    Discriminator(implementation),
    Field(
        json_schema_extra={
            # OpenAPI 3.2: defaultMapping applies where the property is absent.
            "discriminator": {
                "propertyName": "implementation",
                "mapping": {
                    "nginx": "#/$defs/NginxGatewaySpec",
                    "envoyGateway": "#/$defs/EnvoyGatewaySpec",
                },
                "defaultMapping": "#/$defs/NginxGatewaySpec",
            }
        }
    ),
]
