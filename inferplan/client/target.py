"""The target of one call: model, protocol, address and key, from what the stack exports. It opens
no connection.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from inferplan.client.local_gateway.nginx import problem_of
from inferplan.components.gateway.exposure_spec import GATEWAY
from inferplan.components.gateway.routes import ONE_ADDRESS, path_of
from inferplan.components.handles import Endpoint, ModelTensors, ProtocolKind, Tensor, TextTensors
from inferplan.documents.errors import unknown
from inferplan.errors import OperationError, RequestError
from inferplan.rehearsal.cluster import status
from inferplan.workspace import kubectl
from inferplan.workspace.contract import Contract, contract_of
from inferplan.workspace.keys import newest_key
from inferplan.workspace.workspace import Workspace

KEY_VARIABLE = "INFERPLAN_API_KEY"
_DECLARE = "The stack file does not declare its tensors: add input and output to models.{model}"
_OF_TENSORS = ("triton-generate", "kserve-v2-http", "kserve-v2-grpc")
# The first protocol that a model supports is the default: streaming protocols with the shortest
# messages come first.
PREFERRED: tuple[ProtocolKind, ...] = (
    "openai",
    "triton-generate",
    "kserve-v2-http",
    "kserve-v2-grpc",
    "ray-serve",
    "vllm-classify",
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One model by one protocol. `url` is the prefix of its calls, host:port for gRPC; `name` is
    the model's name on the server.

    `text` are the tensors of a prompt and its answer, None for other models. `tensors` are all
    declared inputs and outputs, None if the protocol has no tensors.
    """

    endpoint: Endpoint
    kind: ProtocolKind
    url: str
    name: str
    text: TextTensors | None
    path: str
    tensors: ModelTensors | None = None

    @property
    def model(self) -> str:
        return self.endpoint.model


@dataclass(frozen=True, kw_only=True)
class Caller:
    consumer: str
    key: str = field(repr=False)


def target(
    contract: Contract,
    model: str,
    *,
    protocol: str | None,
    gateway: str | None,
    path: str | None,
    stack: str,
    served: str | None = None,
    declared: Iterable[ModelTensors] | None = None,
) -> Target:
    """The target of a call to `model` or a route, by `protocol` or its first one, at `gateway` or
    the stack's own. Raises RequestError.
    """
    endpoints = {**contract.endpoints, **contract.routes}
    if model not in endpoints:
        raise RequestError(
            unknown(
                "model", model, endpoints, owner=stack, remedy="Add one under inferplan:models."
            )
        )
    endpoint = endpoints[model]
    if served is not None and served not in endpoint.served_names:
        raise RequestError(unknown("served model", served, endpoint.served_names, owner=model))
    text = next((each for each in endpoint.texts if served in (None, each.model)), None)
    name = served or (text.model if text is not None else next(iter(endpoint.served_names), model))
    tensors = next(
        (each for each in declared or () if each.model == name),
        None if text is None else tensors_of_text(text),
    )
    kind = _kind(endpoint, protocol, text, tensors)
    if kind in _OF_TENSORS:
        remedy = (
            f"Print code for its tensors with: inferplan snippet {model} --stack {stack}"
            if declared is None
            else _DECLARE.format(model=model)
        )
        _check_tensors(endpoint, name, kind, text, tensors, remedy=remedy)
    route = path if path is not None else (endpoint.routes[0].prefix if endpoint.routes else "/")
    return Target(
        endpoint=endpoint,
        kind=kind,
        url=_url(contract, model, name, kind, gateway, stack),
        name=name,
        text=text if kind in _OF_TENSORS else None,
        path="" if route == "/" else "/" + route.strip("/"),
        tensors=tensors if kind in _OF_TENSORS else None,
    )


def _kind(
    endpoint: Endpoint, protocol: str | None, text: TextTensors | None, tensors: ModelTensors | None
) -> ProtocolKind:
    spoken = {each.kind for each in endpoint.protocols}
    protocols = [kind for kind in PREFERRED if kind in spoken]
    if protocol is None:
        if text is None and tensors is not None and "openai" not in protocols:
            return "kserve-v2-grpc" if tensors.decoupled else "kserve-v2-http"
        return "vllm-classify" if endpoint.task == "classify" else protocols[0]
    if matches := [kind for kind in protocols if kind == protocol]:
        return matches[0]
    listed = ", ".join(protocols)
    if protocol in PREFERRED:
        raise RequestError(
            f"{endpoint.model} ({endpoint.engine}) does not speak {protocol}. It speaks {listed}"
        )
    raise RequestError(
        f"--protocol: unknown protocol {protocol!r}. {endpoint.model} speaks {listed}"
    )


def _check_tensors(
    endpoint: Endpoint,
    name: str,
    kind: ProtocolKind,
    text: TextTensors | None,
    tensors: ModelTensors | None,
    *,
    remedy: str,
) -> None:
    """Raise RequestError if `kind` cannot carry the tensors of model `name`, or they are not
    declared.
    """
    if tensors is None:
        raise RequestError(
            f"{endpoint.model} serves {', '.join(endpoint.served_names)}, and {name} does not take"
            f" one prompt and answer with text. {remedy}"
        )
    if kind == "triton-generate" and text is None:
        raise RequestError(
            f"{name} takes tensors, which the generate protocol cannot carry. Use --protocol"
            " kserve-v2-http or kserve-v2-grpc."
        )
    if kind == "kserve-v2-http" and tensors.decoupled:
        other = "kserve-v2-grpc" if text is None else "triton-generate"
        raise RequestError(
            f"{name} streams its answer, which KServe's HTTP infer cannot carry. Use --protocol"
            f" {other}"
        )


def tensors_of_text(text: TextTensors) -> ModelTensors:
    prompt = Tensor(name=text.input, datatype="BYTES", shape=text.shape)
    limit = (
        ()
        if text.tokens is None
        else (Tensor(name=text.tokens, datatype=text.tokens_type, shape=text.shape, optional=True),)
    )
    answer = Tensor(name=text.output, datatype="BYTES", shape=text.shape)
    return ModelTensors(
        model=text.model, inputs=(prompt, *limit), outputs=(answer,), decoupled=text.decoupled
    )


def _url(
    contract: Contract, model: str, name: str, kind: ProtocolKind, gateway: str | None, stack: str
) -> str:
    path = (
        ONE_ADDRESS
        if kind == "openai" and contract.names.get(name) == model
        else path_of(contract.routes.get(model) or contract.endpoints[model], kind)
    )
    if gateway is not None:
        return _gateway_url(gateway, kind) + path
    if contract.gateway is None:
        raise RequestError(
            f"{stack} has no gateway. Add inferplan:gateway, or name a gateway with --gateway"
        )
    if kind != "kserve-v2-grpc":
        return contract.gateway + path
    if contract.grpc is None:
        raise RequestError(
            f"the gateway of {stack} does not support gRPC (an application load balancer does not). Use"
            " another --protocol"
        )
    return contract.grpc


def _gateway_url(gateway: str, kind: ProtocolKind) -> str:
    parts = urlsplit(gateway)
    if kind == "kserve-v2-grpc":
        if "://" in gateway or ":" not in gateway:
            raise RequestError(
                f"--gateway: {gateway!r} is not host:port, which gRPC needs. Example:"
                " 127.0.0.1:8082"
            )
        return gateway
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError(
            f"--gateway: {gateway!r} is not a URL. Expected http(s)://host[:port], for example"
            " http://127.0.0.1:8080"
        )
    return gateway.rstrip("/")


def check_reachable(workspace: Workspace, gateway: str | None) -> None:
    """Raise OperationError if no call from here can be answered: on a simulated cluster, or behind
    an internal gateway.
    """
    if gateway is not None:
        return

    stack = workspace.stack
    if workspace.simulated:
        start = f"inferplan up {workspace.rehearsal_arguments}"
        if (state := status(workspace.cluster)) != "running":
            raise OperationError(
                f"the simulated cluster of {stack} is {state}. Start it with: {start}"
            )
        if problem := problem_of(workspace):
            raise OperationError(f"no model of {stack} answers in this rehearsal: {problem}")
        raise OperationError(
            f"{stack} runs on a simulated cluster, and its local gateway does not answer. Start or"
            f" repair it with: {start}, or name a running gateway with --gateway URL"
        )
    spec = workspace.settings.gateway
    if spec is not None and not spec.access.is_public:
        if kubectl.is_rehearsed(workspace):
            raise OperationError(
                f"{stack} is rehearsed on this machine, and the pods of a rehearsal run no"
                " containers, so no model answers there. Forward the gateway of a real cluster,"
                " and add --gateway URL"
            )
        contract = contract_of(workspace.settings)
        grpc = " 8082:8082" if contract.grpc else ""
        context = f" --context {workspace.context}" if workspace.context else ""
        raise OperationError(
            f"the gateway of {stack} answers inside its cluster only. Forward it with: kubectl"
            f"{context} -n {workspace.settings.namespace} port-forward service/{GATEWAY}"
            f" 8080:80{grpc}, and add --gateway http://127.0.0.1:8080"
        )


def caller(workspace: Workspace, endpoint: Endpoint, consumer: str | None) -> Caller:
    """The caller of `endpoint`: the key in $INFERPLAN_API_KEY, else that of `consumer` or of the
    first allowed one. Raises RequestError.
    """
    key = os.environ.get(KEY_VARIABLE)
    if key and consumer is None:
        return Caller(consumer=f"${KEY_VARIABLE}", key=key.strip())
    return derived(workspace, consumer_of(workspace, endpoint, consumer))


def consumer_of(workspace: Workspace, endpoint: Endpoint, consumer: str | None) -> str:
    allowed = endpoint.consumers
    where = f"{_rights_of(endpoint.model, workspace)} in {workspace.file.shown_path}"
    if not allowed:
        raise RequestError(
            f"no consumer may call {endpoint.model}. Add one to {where}, and run: inferplan up"
            f" {workspace.typed}"
        )
    if consumer is None:
        return allowed[0]
    if consumer not in allowed:
        raise RequestError(
            f"{consumer} may not call {endpoint.model}; {', '.join(allowed)} may. Add it to"
            f" {where}, or leave --consumer out"
        )
    return consumer


def _rights_of(name: str, workspace: Workspace) -> str:
    """Return the field that lists the consumers of a model, a route or an adapter."""
    settings = workspace.settings
    if name not in settings.public_routes:
        return f"models.{name}.consumers"
    if name in settings.routes:
        return f"routes.{name}.consumers"
    [base] = settings.public_routes[name].backends
    return f"models.{base}.loraConsumers.{name}"


def derived(workspace: Workspace, consumer: str) -> Caller:
    return Caller(consumer=consumer, key=newest_key(workspace, consumer))
