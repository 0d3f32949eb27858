"""The endpoints of a stack, from its file alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from inferplan.components.gateway.exposure_spec import GATEWAY
from inferplan.components.gateway.keys import server_key_ref
from inferplan.components.gateway.one_address import names_at_one_address
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.gateway.routes import model_url
from inferplan.components.handles import Endpoint, speaks_grpc
from inferplan.components.serving.spec import engine_of
from inferplan.stackfile.stack import StackSettings


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The endpoints by model, the gateway's base URL and its address for gRPC; None if the stack
    has none. `local`: a rehearsal answers.

    `names` are those that /v1 of the gateway accepts, each with its model or route, and `routes`
    are the endpoints of routes. `wholes` has the model of each side of a split one.
    """

    namespace: str
    gateway: str | None
    grpc: str | None
    endpoints: Mapping[str, Endpoint]
    local: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, Endpoint] = field(default_factory=dict)
    wholes: Mapping[str, str] = field(default_factory=dict)

    def address(self, model: str) -> str:
        """The address of the first protocol of `model`: at the gateway, or inside the cluster
        without a gateway.
        """
        return model_url(self.endpoint_of(model), gateway=self.gateway, namespace=self.namespace)

    def endpoint_of(self, model: str) -> Endpoint:
        """Return the endpoint of `model`, or of the one that it is a side of."""
        return self.endpoints[self.wholes.get(model, model)]


def contract_of(settings: StackSettings) -> Contract:
    endpoints = {
        name: engine_of(model).endpoint(name, model, server_key_ref(name))
        for name, model in settings.called_models.items()
    }
    access = None if settings.gateway is None else settings.gateway.access
    return Contract(
        namespace=settings.namespace,
        gateway=None if access is None else access.url(GATEWAY),
        grpc=access.grpc(GATEWAY)
        if access is not None and speaks_grpc(endpoints.values())
        else None,
        endpoints=endpoints,
        wholes={name: each.whole(name) for name, each in settings.models.items()},
        names=names_at_one_address(tuple(endpoints.values()), settings.public_routes)
        if settings.gateway and settings.gateway.has_public_routes
        else {},
        routes={
            name: _of_route(name, route, endpoints[min(route.backends)])
            for name, route in settings.public_routes.items()
        },
    )


def _of_route(name: str, route: RouteSpec, backend: Endpoint) -> Endpoint:
    """Return the endpoint of a route, which speaks OpenAI's protocol alone. Nothing that backends
    differ in may be read from it.
    """
    protocols = tuple(each for each in backend.protocols if each.kind == "openai")
    return replace(
        backend,
        model=name,
        served_names=(name,),
        consumers=tuple(sorted(route.consumers)),
        protocols=protocols,
        texts=(),
        routes=(),
    )
