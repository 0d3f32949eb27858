"""Which way one call goes: model, protocol, address and key, from what the stack exports. It calls nobody and prints nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from components.handles import Endpoint, ProtocolKind, TextTensors
from operations.errors import OperationError, RequestError

if TYPE_CHECKING:
    from operations.contract import Contract
    from operations.workspace import Workspace

KEY_VARIABLE = "INFERPLAN_API_KEY"
# The first that a model speaks is taken: what streams text with the fewest words comes first.
PREFERRED: tuple[ProtocolKind, ...] = ("openai", "triton-generate", "kserve-v2-http", "kserve-v2-grpc", "ray-serve")


@dataclass(frozen=True, kw_only=True)
class Target:
    """One model by one protocol. `url` is where its calls start, host:port for gRPC; `name` is what the server knows the model by."""

    endpoint: Endpoint
    kind: ProtocolKind
    url: str
    name: str
    text: TextTensors | None
    path: str

    @property
    def model(self) -> str:
        """The model's key in the stack file."""
        return self.endpoint.model


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who calls, and with what; the key stays out of the repr."""

    consumer: str
    key: str = field(repr=False)


def target(contract: Contract, model: str, *, protocol: str | None, gateway: str | None, path: str | None, stack: str) -> Target:
    """The way to `model`, by `protocol` or the best that it speaks, at `gateway` or where the stack says.

    Raises OperationError for a model or protocol that is not there, and where nothing can be reached.
    """
    endpoint = _endpoint(contract, model, stack)
    kind = _kind(endpoint, protocol)
    text = _text(endpoint, kind)
    name = text.model if text is not None else (endpoint.served_names[0] if endpoint.served_names else model)
    route = path if path is not None else (endpoint.routes[0].prefix if endpoint.routes else "/")
    url = _url(contract, model, kind, gateway, stack)
    return Target(endpoint=endpoint, kind=kind, url=url, name=name, text=text, path="" if route == "/" else "/" + route.strip("/"))


def _endpoint(contract: Contract, model: str, stack: str) -> Endpoint:
    from stackfile.errors import unknown

    if model in contract.endpoints:
        return contract.endpoints[model]
    raise RequestError(unknown("model", model, contract.endpoints, owner=stack, remedy="Add one under inferplan:models."))


def _kind(endpoint: Endpoint, protocol: str | None) -> ProtocolKind:
    spoken = {each.kind for each in endpoint.protocols}
    if protocol is None:
        return next(kind for kind in PREFERRED if kind in spoken)
    for kind in get_args(ProtocolKind):
        if kind == protocol and kind in spoken:
            return kind
    listed = ", ".join(kind for kind in PREFERRED if kind in spoken)
    if protocol in get_args(ProtocolKind):
        raise RequestError(f"{endpoint.model} ({endpoint.engine}) does not speak {protocol}; it speaks {listed}")
    raise RequestError(f"--protocol {protocol} is none that inferplan knows; {endpoint.model} speaks {listed}")


def _text(endpoint: Endpoint, kind: ProtocolKind) -> TextTensors | None:
    if kind in ("openai", "ray-serve"):
        return None
    if not endpoint.texts:
        raise RequestError(
            f"{endpoint.model} serves {', '.join(endpoint.served_names)}, none of which takes one prompt and answers with text; "
            "call it with a client of your own (docs/client.md says how)"
        )
    text = endpoint.texts[0]
    if kind == "kserve-v2-http" and text.decoupled:
        raise RequestError(f"{text.model} answers in pieces, which KServe's HTTP infer cannot carry; use --protocol triton-generate")
    return text


def _url(contract: Contract, model: str, kind: ProtocolKind, gateway: str | None, stack: str) -> str:
    from components.gateway.routes import public_path

    if gateway is not None:
        return _given(gateway, kind) + public_path(model, kind)
    if contract.gateway is None:
        raise RequestError(f"{stack} has no gateway, so nothing lets a call in; write inferplan:gateway, or name one with --gateway")
    if kind != "kserve-v2-grpc":
        return contract.url(model, kind)
    if contract.grpc is None:
        raise RequestError(f"the way into {stack} carries no gRPC (an application load balancer does not); use another --protocol")
    return contract.grpc


def _given(gateway: str, kind: ProtocolKind) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(gateway)
    if kind == "kserve-v2-grpc":
        if "://" in gateway or ":" not in gateway:
            raise RequestError(f"--gateway {gateway}: gRPC wants host:port, such as 127.0.0.1:8082")
        return gateway
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError(f"--gateway {gateway} is no address; write http(s)://host[:port], such as http://127.0.0.1:8080")
    return gateway.rstrip("/")


def refuse_the_unreachable(workspace: Workspace, gateway: str | None) -> None:
    """Raises OperationError where the stack itself says that nothing answers from here: a simulated cluster, an internal gateway."""
    if gateway is not None:
        return
    stack = workspace.stack
    if workspace.simulated:
        raise OperationError(
            f"{stack} is a simulated cluster: its pods are pretend ones and nothing serves there. Deploy the stack to a real cluster and "
            f"call it there, see the code that would call it with: inferplan snippet, or name a gateway that runs with --gateway URL",
        )
    spec = workspace.settings.gateway
    if spec is not None and not spec.access.is_public:
        raise OperationError(
            f"the gateway of {stack} answers inside its cluster only; bring it here with: "
            f"kubectl -n {workspace.settings.namespace} port-forward service/gateway 8080:80 8082:8082, and add --gateway http://127.0.0.1:8080",
        )


def caller(workspace: Workspace, endpoint: Endpoint, consumer: str | None) -> Caller:
    """Who calls `endpoint`: the key in $INFERPLAN_API_KEY where there is one, else that of `consumer` or of the first who may.

    Raises OperationError where nobody may, or the key cannot be derived.
    """
    given = os.environ.get(KEY_VARIABLE)
    if given and consumer is None:
        return Caller(consumer=f"${KEY_VARIABLE}", key=given.strip())
    return derived(workspace, consumer_of(workspace, endpoint, consumer))


def consumer_of(workspace: Workspace, endpoint: Endpoint, consumer: str | None) -> str:
    """The consumer who calls `endpoint`. Raises OperationError where there is none, or not that one."""
    allowed = endpoint.consumers
    where = f"models.{endpoint.model}.consumers in {workspace.file.shown_path}"
    if not allowed:
        raise RequestError(f"no consumer may call {endpoint.model}; add one to {where}, and run: inferplan up {workspace.typed}")
    if consumer is None:
        return allowed[0]
    if consumer not in allowed:
        raise RequestError(
            f"{consumer} may not call {endpoint.model}; {', '.join(allowed)} may. Add it to {where}, or leave --consumer out"
        )
    return consumer


def derived(workspace: Workspace, consumer: str) -> Caller:
    """The newest key of `consumer`, from the stack's seed. Raises OperationError where the seed stays sealed."""
    from operations.keys import newest_key

    return Caller(consumer=consumer, key=newest_key(workspace, consumer))
