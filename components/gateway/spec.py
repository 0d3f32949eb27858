"""What a user writes about the entrance: where it answers, how it is reached, who holds keys and how much they may ask for.

No key is written here. A consumer names the versions that are valid; the keys themselves are derived from the stack's seed.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PositiveInt, StringConstraints, field_validator, model_validator

from components.gateway.alb import LONGEST_READ_SECONDS, AlbSpec
from components.gateway.nlb import NlbSpec
from components.spec import Bytes, DnsLabel, DnsName, PinnedImage, Spec
from images.catalogue import default_image

DEFAULT_IMAGE = default_image("gateway")

KeyVersion = Annotated[int, Field(strict=True, ge=1, le=999_999)]


def _canonical_origin(origin: str) -> str:
    if origin == "*":
        raise ValueError("'*' would let every web page use a visitor's key; list the origins, such as https://chat.acme.example")
    return origin


# Scheme, host and port and nothing more: a browser never sends a path, and quotes or dollars must not reach the proxy.
Origin = Annotated[
    str,
    AfterValidator(_canonical_origin),
    StringConstraints(pattern=r"^(\*|https?://[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?)$", max_length=270),
    Field(description="A web origin: scheme and host, lower case, no path, such as https://chat.acme.example."),
]


class TlsSpec(Spec):
    """The certificate that the ingress presents."""

    secret_name: DnsName
    """A Secret of type kubernetes.io/tls in the inference namespace; with an issuer, cert-manager fills it."""
    cluster_issuer: DnsName | None = None
    """A cert-manager ClusterIssuer that keeps the certificate; absent, the Secret is yours to fill."""


class CorsSpec(Spec):
    """Web pages that may call the gateway from a browser; by default none may."""

    origins: Annotated[list[Origin], Field(min_length=1, max_length=100)]


class AutoscalingSpec(Spec):
    """Replicas of the proxy by its CPU use; `replicas` is then the least number."""

    max_replicas: Annotated[int, Field(ge=2, le=100)]
    """The most replicas."""
    cpu_percent: Annotated[int, Field(ge=10, le=95)] = 70
    """Average CPU use, in percent of the request, that more replicas bring down to."""


class GatewayParent(Spec):
    """A Gateway of the Gateway API that exists; TLS and addresses are its own."""

    name: DnsName
    """The name of the Gateway."""
    namespace: DnsLabel
    """The namespace of the Gateway."""
    section_name: DnsName | None = None
    """One listener of it; all of them by default."""


class GatewaySpec(Spec):
    """The proxy that checks keys, and the way in that stands before it."""

    host: DnsName | None = None
    """The name that clients use; required unless the exposure is internal."""
    implementation: Literal["nginx", "envoyGateway"] = "nginx"
    """Who checks the keys: a proxy of ours, or the Envoy Gateway that parent belongs to, with exposure gatewayApi."""
    exposure: Literal["ingress", "gatewayApi", "loadBalancer", "internal"] = "ingress"
    """An Ingress; an HTTPRoute on a Gateway that exists; a load balancer of its own; or nothing outside the cluster."""
    tls: TlsSpec | None = None
    alb: AlbSpec | None = None
    """An application load balancer of AWS, with exposure ingress; its certificate takes the place of tls."""
    nlb: NlbSpec | None = None
    """A network load balancer of AWS, with exposure loadBalancer."""
    insecure: bool = False
    """Serves plain HTTP at the ingress, keys in clear on the wire: for trials only."""
    ingress_class_name: DnsName | None = None
    """The ingress class; the cluster's default class when absent."""
    parent: GatewayParent | None = None
    """The Gateway to attach to, with exposure gatewayApi."""
    replicas: Annotated[int, Field(ge=1, le=100)] = 2
    """Pods of the proxy."""
    autoscaling: AutoscalingSpec | None = None
    image: PinnedImage = DEFAULT_IMAGE
    """An nginx that runs as an ordinary user, with sh and awk beside it."""
    cors: CorsSpec | None = None
    read_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 2000
    """The longest silence of a model that is still waited for, in seconds."""
    drain_seconds: Annotated[int, Field(ge=1, le=86_400)] = 600
    """How long a proxy that is being replaced lets running answers finish, in seconds."""
    max_body_size: Bytes = "64Mi"
    """The largest request body; prompts with images need room."""

    @model_validator(mode="after")
    def _the_way_in_is_complete(self) -> Self:
        faults = list(self._exposure_faults())
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @model_validator(mode="after")
    def _autoscaling_has_room(self) -> Self:
        if self.autoscaling is not None and self.autoscaling.max_replicas < self.replicas:
            raise ValueError(f"autoscaling.maxReplicas is {self.autoscaling.max_replicas}, below replicas {self.replicas}; raise it")
        return self

    @property
    def leaving_seconds(self) -> int:
        """How long calls may still come to a pod of the proxy after it began to leave, by what stands in front of it."""
        balancer = self.alb or self.nlb
        return 10 if balancer is None else balancer.leaving_seconds

    def _exposure_faults(self) -> list[str]:
        faults = []
        if self.exposure != "internal" and self.host is None:
            faults.append(f"exposure {self.exposure} needs host: the DNS name that clients use (or write exposure: internal)")
        if self.exposure == "ingress":
            faults += self._alb_faults()
            if self.tls is None and self.alb is None and not self.insecure:
                faults.append("keys must not cross the network in clear; write tls: {secretName: ...}, or insecure: true for a trial")
            if self.tls is not None and self.insecure:
                faults.append("insecure: true contradicts tls; remove one of them")
        else:
            ours = {"tls": self.tls, "alb": self.alb, "insecure": self.insecure, "ingressClassName": self.ingress_class_name}
            faults += [f"{key} belongs to exposure ingress, not {self.exposure}; remove it" for key, value in ours.items() if value]
        faults += self._envoy_faults()
        for key, balancer in (("alb", self.alb), ("nlb", self.nlb)):
            faults += [] if balancer is None else balancer.faults(key, self.drain_seconds)
        if (self.exposure == "loadBalancer") != (self.nlb is not None):
            faults.append("nlb (its certificateArn) and exposure: loadBalancer go together; write both or neither")
        if (self.exposure == "gatewayApi") != (self.parent is not None):
            faults.append("parent (name and namespace of a Gateway) and exposure: gatewayApi go together; write both or neither")
        return faults

    def _envoy_faults(self) -> list[str]:
        if self.implementation == "nginx":
            return []
        faults = []
        if self.exposure != "gatewayApi":
            faults.append(f"implementation envoyGateway goes with exposure gatewayApi, not {self.exposure}; write that, and parent")
        ours = {"replicas": "replicas", "autoscaling": "autoscaling", "image": "image", "drain_seconds": "drainSeconds"}
        ours |= {"max_body_size": "maxBodySize"}
        faults += [
            f"{key} belongs to implementation nginx: the proxies of an Envoy Gateway are set up with it; remove it"
            for field, key in ours.items()
            if field in self.model_fields_set
        ]
        return faults

    def _alb_faults(self) -> list[str]:
        if self.alb is None:
            return []
        faults = [
            f"{key} contradicts alb, which presents alb.certificateArn; remove one of them"
            for key, value in {"tls": self.tls, "insecure: true": self.insecure}.items()
            if value
        ]
        if self.ingress_class_name is None:
            faults.append("alb needs ingressClassName: the class of the AWS Load Balancer Controller, often alb")
        if self.read_timeout_seconds > LONGEST_READ_SECONDS:
            longest = f"at most {LONGEST_READ_SECONDS} with alb, which cuts silent connections soon after"
            faults.append(f"readTimeoutSeconds is {self.read_timeout_seconds}, {longest}; lower it")
        return faults


class LimitsSpec(Spec):
    """How much one consumer may ask for, over all models; each replica of the gateway grants its share, rounded up."""

    requests_per_minute: Annotated[int, Field(ge=1, le=600_000)] | None = None
    """The rate that is granted; none is held by default."""
    burst: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Requests above the rate that pass at once; a tenth of requestsPerMinute by default."""
    concurrent_requests: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Requests in flight, streams included."""

    @model_validator(mode="after")
    def _burst_needs_a_rate(self) -> Self:
        if self.burst is not None and self.requests_per_minute is None:
            raise ValueError("burst is room above a rate; write requestsPerMinute, or remove burst")
        return self


class EncryptedKey(Spec):
    """An imported key, as `pulumi config set --secret` writes it."""

    secure: str
    """The encrypted key; its plain text never enters a spec."""


class ConsumerSpec(Spec):
    """Somebody who holds keys. Rotating is adding a version, moving clients over, and later dropping the old one."""

    keys: Annotated[list[KeyVersion], Field(min_length=1, max_length=10)]
    """The key versions that are valid now; the highest is the one handed to clients inside the cluster."""
    expires: dict[PositiveInt, date] = {}
    """The last day (UTC) of a key version, by version; the proxy itself refuses it afterwards."""
    issued: dict[PositiveInt, date] = {}
    """The day (UTC) on which a key version was made valid, by version; `inferplan keys add` writes it, and a policy holds keys to an age."""
    imported_keys: dict[PositiveInt, EncryptedKey] = {}
    """Keys that clients hold already, by version, in the place of derived ones; each {secure: ...}."""
    limits: LimitsSpec = LimitsSpec()

    @field_validator("keys")
    @classmethod
    def _versions_are_named_once(cls, keys: list[int]) -> list[int]:
        twice = sorted({version for version in keys if keys.count(version) > 1})
        if twice:
            raise ValueError(f"key version {', '.join(map(str, twice))} stands more than once; name each version once")
        return keys

    @model_validator(mode="after")
    def _only_valid_versions_have_dates(self) -> Self:
        for name, dates in (("expires", self.expires), ("issued", self.issued)):
            stray = sorted(set(dates) - set(self.keys))
            if stray:
                raise ValueError(
                    f"{name} names version {', '.join(map(str, stray))}, but keys lists {', '.join(map(str, self.keys))}; "
                    "remove the date, or list the version"
                )
        return self

    @model_validator(mode="after")
    def _only_valid_versions_are_imported(self) -> Self:
        stray = sorted(set(self.imported_keys) - set(self.keys))
        if stray:
            raise ValueError(
                f"importedKeys names version {', '.join(map(str, stray))}, but keys lists {', '.join(map(str, self.keys))}; "
                "remove the imported key, or list the version"
            )
        return self

    @property
    def newest(self) -> int:
        """The highest valid key version."""
        return max(self.keys)
