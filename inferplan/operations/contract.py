"""The endpoints of a stack, from its file alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inferplan.components.gateway.exposure_spec import GATEWAY
from inferplan.components.gateway.keys import SECRET_KEY, server_key_secret
from inferplan.components.gateway.routes import model_url, public_path
from inferplan.components.handles import Endpoint, ProtocolKind, SecretRef
from inferplan.components.serving.spec import engine_of
from inferplan.stackfile.stack import StackSettings


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The endpoints by model, the gateway's base URL and its address for gRPC; None if the stack has none."""

    namespace: str
    gateway: str | None
    grpc: str | None
    endpoints: Mapping[str, Endpoint]

    def address(self, model: str) -> str:
        """The address of the first protocol of `model`: at the gateway, or inside the cluster without a gateway."""
        return model_url(self.endpoints[model], gateway=self.gateway, namespace=self.namespace)

    def url(self, model: str, kind: ProtocolKind) -> str:
        if self.gateway is None:
            raise ValueError("this stack has no gateway, so only its namespace can call")
        return self.gateway + public_path(model, kind)


def contract_of(settings: StackSettings) -> Contract:
    endpoints = {
        name: engine_of(model).endpoint(name, model, SecretRef(name=server_key_secret(name), key=SECRET_KEY))
        for name, model in settings.models.items()
    }
    access = None if settings.gateway is None else settings.gateway.access
    return Contract(
        namespace=settings.namespace,
        gateway=None if access is None else access.url(GATEWAY),
        grpc=access.grpc(GATEWAY) if access is not None and speaks_grpc(endpoints.values()) else None,
        endpoints=endpoints,
    )


def speaks_grpc(endpoints: Iterable[Endpoint]) -> bool:
    return any(protocol.kind == "kserve-v2-grpc" for each in endpoints for protocol in each.protocols)
