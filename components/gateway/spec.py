"""The settings of the gateway: the API address, how clients reach it, and which implementation checks the keys.

`GatewaySpec` is a union by `implementation`. Other modules ask a spec for its capabilities instead of comparing names.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from components.gateway.alb import LONGEST_READ_SECONDS, AlbSpec
from components.gateway.elb import BalancerSpec
from components.gateway.nlb import NlbSpec
from components.gateway.notes import ENVOY_DIFFERENCES
from components.spec import Bytes, DnsLabel, DnsName, PinnedImage, Spec
from images.catalogue import default_image

DEFAULT_IMAGE = default_image("gateway")


def _reject_wildcard(origin: str) -> str:
    if origin == "*":
        raise ValueError("Origin '*' would let any web page use a visitor's key. List the origins, for example https://chat.acme.example.")
    return origin


# Scheme, host and port only: a browser never sends a path, and nginx must not receive quotes or dollar signs.
Origin = Annotated[
    str,
    AfterValidator(_reject_wildcard),
    StringConstraints(pattern=r"^(\*|https?://[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?)$", max_length=270),
    Field(description="A web origin: scheme and host in lower case without a path, for example https://chat.acme.example."),
]


class TlsSpec(Spec):
    """The certificate that the Ingress uses."""

    secret_name: DnsName
    """A Secret of type kubernetes.io/tls in the stack's namespace. With clusterIssuer, cert-manager creates it."""
    cluster_issuer: DnsName | None = None
    """A cert-manager ClusterIssuer that issues the certificate. Default: you create the Secret."""


class CorsSpec(Spec):
    """Web pages that may call the gateway from a browser. Default: none."""

    origins: Annotated[list[Origin], Field(min_length=1, max_length=100)]


class AutoscalingSpec(Spec):
    """Scales the gateway's replicas by CPU utilization. `replicas` is then the minimum."""

    max_replicas: Annotated[int, Field(ge=2, le=100)]
    """Maximum number of replicas."""
    cpu_percent: Annotated[int, Field(ge=10, le=95)] = 70
    """Target average CPU utilization, in percent of the CPU request."""


class GatewayParent(Spec):
    """An existing Gateway of the Gateway API. It has its own TLS settings and addresses."""

    name: DnsName
    """The name of the Gateway."""
    namespace: DnsLabel
    """The namespace of the Gateway."""
    section_name: DnsName | None = None
    """The listener to attach to. Default: all listeners."""


class GatewayFields(Spec):
    """Settings and capabilities that every gateway implementation has."""

    enforces_expiry: ClassVar[bool]
    """Denies a key after its last valid day."""
    enforces_limits: ClassVar[bool]
    """Enforces the limits of consumers."""
    hashes_keys: ClassVar[bool]
    """Compares hashes, so it does not store keys in plain text."""
    matches_paths_by_pattern: ClassVar[bool]
    """Forwards calls whose paths contain arbitrary names; otherwise only calls that can be listed one by one."""
    runs_in_namespace: ClassVar[bool]
    """Runs as pods in the stack's namespace."""
    differences: ClassVar[tuple[str, ...]] = ()
    """Differences from the nginx implementation, one sentence each, for the plan."""

    cors: CorsSpec | None = None
    read_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 2000
    """Read timeout: seconds without data from the model."""


class NginxGatewaySpec(GatewayFields):
    """A gateway of nginx pods in the stack's namespace that check keys and forward calls."""

    enforces_expiry: ClassVar[bool] = True
    enforces_limits: ClassVar[bool] = True
    hashes_keys: ClassVar[bool] = True
    matches_paths_by_pattern: ClassVar[bool] = True
    runs_in_namespace: ClassVar[bool] = True

    implementation: Literal["nginx"] = "nginx"
    host: DnsName | None = None
    """DNS name that clients call. Required unless exposure is internal."""
    exposure: Literal["ingress", "gatewayApi", "loadBalancer", "internal"] = "ingress"
    """How clients reach the gateway: an Ingress, an HTTPRoute on an existing Gateway, a network load balancer, or only inside the cluster."""
    tls: TlsSpec | None = None
    alb: AlbSpec | None = None
    """An AWS Application Load Balancer for exposure ingress. Its certificate replaces tls."""
    nlb: NlbSpec | None = None
    """An AWS Network Load Balancer for exposure loadBalancer."""
    insecure: bool = False
    """Serves plain HTTP at the Ingress, so keys cross the network in plain text. For trials only."""
    ingress_class_name: DnsName | None = None
    """The ingress class. Default: the default class of the cluster."""
    parent: GatewayParent | None = None
    """The Gateway to attach to. Required for exposure gatewayApi."""
    replicas: Annotated[int, Field(ge=1, le=100)] = 2
    """Number of nginx pods."""
    autoscaling: AutoscalingSpec | None = None
    image: PinnedImage = DEFAULT_IMAGE
    """An nginx image that runs as a non-root user and contains sh and awk."""
    drain_seconds: Annotated[int, Field(ge=1, le=86_400)] = 600
    """Seconds that a terminating pod has to finish running responses."""
    max_body_size: Bytes = "64Mi"
    """Maximum size of a request body. Prompts with images need more than text."""

    @model_validator(mode="after")
    def _check_exposure(self) -> Self:
        errors = self._exposure_errors()
        if errors:
            raise ValueError(" ".join(errors))
        return self

    @model_validator(mode="after")
    def _check_autoscaling(self) -> Self:
        if self.autoscaling is not None and self.autoscaling.max_replicas < self.replicas:
            raise ValueError(
                f"autoscaling.maxReplicas ({self.autoscaling.max_replicas}) is less than replicas ({self.replicas}). Raise maxReplicas."
            )
        return self

    @property
    def balancer(self) -> BalancerSpec | None:
        """The AWS load balancer in front of the pods, if there is one."""
        return self.alb or self.nlb

    @property
    def deregistration_seconds(self) -> int:
        """Seconds that calls may still reach a pod after it starts to terminate."""
        return 10 if self.balancer is None else self.balancer.deregistration_seconds

    @property
    def carries_grpc(self) -> bool:
        """True if gRPC calls pass; AWS load balancers forward the HTTP port only."""
        return self.balancer is None

    @property
    def public_scheme(self) -> str:
        """The URL scheme that clients outside the cluster use."""
        return "http" if self.insecure else "https"

    def _exposure_errors(self) -> list[str]:
        errors = []
        if self.exposure != "internal" and self.host is None:
            errors.append(f"exposure {self.exposure} requires host, the DNS name that clients call. Set host, or set exposure: internal.")
        if self.exposure == "ingress":
            errors += self._alb_errors()
            if self.tls is None and self.alb is None and not self.insecure:
                errors.append("Keys must not cross the network in plain text. Set tls: {secretName: ...}, or insecure: true for a trial.")
            if self.tls is not None and self.insecure:
                errors.append("insecure: true contradicts tls. Remove one of them.")
        else:
            fields = {"tls": self.tls, "alb": self.alb, "insecure": self.insecure, "ingressClassName": self.ingress_class_name}
            errors += [f"{key} requires exposure ingress, not {self.exposure}. Remove {key}." for key, value in fields.items() if value]
        for key, balancer in (("alb", self.alb), ("nlb", self.nlb)):
            errors += [] if balancer is None else balancer.errors(key, self.drain_seconds)
        if (self.exposure == "loadBalancer") != (self.nlb is not None):
            errors.append("exposure: loadBalancer and nlb require each other. Set both (nlb needs certificateArn), or neither.")
        if (self.exposure == "gatewayApi") != (self.parent is not None):
            errors.append(
                "exposure: gatewayApi and parent require each other. Set both (parent needs name and namespace of a Gateway), or neither."
            )
        return errors

    def _alb_errors(self) -> list[str]:
        if self.alb is None:
            return []
        errors = [
            f"{key} contradicts alb, which uses alb.certificateArn. Remove one of them."
            for key, value in {"tls": self.tls, "insecure: true": self.insecure}.items()
            if value
        ]
        if self.ingress_class_name is None:
            errors.append("alb requires ingressClassName, the class of the AWS Load Balancer Controller. It is often alb.")
        if self.read_timeout_seconds > LONGEST_READ_SECONDS:
            errors.append(
                f"readTimeoutSeconds is {self.read_timeout_seconds}. The maximum with alb is {LONGEST_READ_SECONDS}, "
                "because the load balancer closes idle connections. Lower it."
            )
        return errors


class EnvoyGatewaySpec(GatewayFields):
    """Routes on a Gateway of an existing Envoy Gateway, whose proxies check the keys and run in their own namespace."""

    enforces_expiry: ClassVar[bool] = False
    enforces_limits: ClassVar[bool] = False
    hashes_keys: ClassVar[bool] = False
    matches_paths_by_pattern: ClassVar[bool] = False
    runs_in_namespace: ClassVar[bool] = False
    differences: ClassVar[tuple[str, ...]] = ENVOY_DIFFERENCES
    balancer: ClassVar[None] = None
    deregistration_seconds: ClassVar[None] = None
    carries_grpc: ClassVar[bool] = False
    public_scheme: ClassVar[str] = "https"

    implementation: Literal["envoyGateway"]
    exposure: Literal["gatewayApi"]
    """An HTTPRoute for each model on an existing Gateway."""
    host: DnsName
    """DNS name that clients call."""
    parent: GatewayParent
    """The Gateway to attach to."""


def implementation(written: Any) -> str:
    """The tag that picks a variant of the union: the field `implementation`, nginx by default."""
    return str(written.get("implementation", "nginx") if isinstance(written, dict) else getattr(written, "implementation", "nginx"))


GatewaySpec: TypeAlias = Annotated[
    Annotated[NginxGatewaySpec, Tag("nginx")] | Annotated[EnvoyGatewaySpec, Tag("envoyGateway")],
    Discriminator(implementation),
    Field(
        json_schema_extra={
            # OpenAPI 3.2: defaultMapping applies where the property is absent.
            "discriminator": {
                "propertyName": "implementation",
                "mapping": {"nginx": "#/$defs/NginxGatewaySpec", "envoyGateway": "#/$defs/EnvoyGatewaySpec"},
                "defaultMapping": "#/$defs/NginxGatewaySpec",
            }
        }
    ),
]
