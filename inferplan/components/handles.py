"""Outputs that components pass to each other: small frozen values without behaviour or secrets, for
existing resources too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from inferplan.hardware.accelerators import Accelerator, Taint
    from inferplan.hardware.machines import Capacity

ProtocolKind = Literal[
    "openai", "kserve-v2-http", "kserve-v2-grpc", "triton-generate", "ray-serve", "vllm-classify"
]
Task = Literal["generate", "embed", "rerank", "classify", "transcribe"]


@dataclass(frozen=True, kw_only=True)
class SecretRef:
    """One key of a Kubernetes Secret in the inference namespace."""

    name: str
    key: str


@dataclass(frozen=True, kw_only=True)
class CaBundle:
    """Certificates of CAs in PEM: one key of an object in the inference namespace."""

    kind: Literal["ConfigMap", "Secret"]
    name: str
    key: str = "ca.crt"


@dataclass(frozen=True, kw_only=True)
class NodeTarget:
    """The nodes of a pool: `accelerator` is None for CPUs, `capacity` is that of one node, `nodes`
    the maximum number of nodes.
    """

    pool: str
    accelerator: Accelerator | None
    node_selector: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Capacity
    nodes: int
    runtime_class: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClusterTraits:
    """The facts about a cluster that pools and stores check; `cloud` is None without one,
    `fake_node_error` if fake nodes are allowed.
    """

    provider: str
    cloud: str | None
    creates_buckets: bool
    fake_node_error: str | None


@dataclass(frozen=True, kw_only=True)
class EndpointProtocol:
    """A protocol of a model server: a port of its Service and the path prefix of its API."""

    kind: ProtocolKind
    port: int
    path: str


@dataclass(frozen=True, kw_only=True)
class TextTensors:
    """The tensors of a model that generates text: the input for the prompt and the output with the
    response.

    `stream` is the input that requests streaming and `tokens` the input of type `tokens_type` that
    limits the length, None if the model has none (a request parameter of that name may limit it
    instead). `shape` is that of one prompt, including a batch axis if there is one. A `decoupled`
    model may send several responses, and then answers only streaming calls.
    """

    model: str
    input: str
    output: str
    stream: str | None = None
    tokens: str | None = None
    tokens_type: str = "INT32"
    shape: tuple[int, ...] = (1,)
    decoupled: bool = False


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """An input or output of a model: its KServe v2 datatype (`FP32`, `BYTES`), and the shape of one
    request, with 1 where the size varies.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelTensors:
    """The inputs and outputs of one model of a Triton server. A `decoupled` model answers only
    streaming calls.
    """

    model: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    decoupled: bool = False


@dataclass(frozen=True, kw_only=True)
class ServeRoute:
    """The calls of one Ray Serve application that clients may make: paths below `prefix`, with
    these methods and request headers.
    """

    prefix: str = "/"
    methods: tuple[str, ...] = ("POST",)
    web_socket: bool = False
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RouterAddress:
    """The Service of a model's router. `alone` if the model's own Service cannot answer calls."""

    host: str
    port: int
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The endpoint that every engine exports for the gateway, policies, monitoring, status and
    clients.

    `host` is the Service's DNS name inside the cluster. `server_key` is the key of the model
    server, None if it has none. `texts` are the served models that generate text from named
    tensors. `routes` are the Ray Serve applications. `counted` says that the gateway counts the
    requests; `start_seconds` is set if the model can have no replica. `keeps_connections` says that
    the server is a known one, which closes idle connections after 5 seconds or later. `task` is
    what the model does with a request. The gateway calls `router` instead of the Service while it
    answers. `by_name_only` says that the name in a body decides who may call, so that the gateway
    takes calls at /v1 only.
    """

    model: str
    engine: str
    host: str
    protocols: tuple[EndpointProtocol, ...]
    health_path: str
    metrics_path: str
    metrics_port: int
    served_names: tuple[str, ...]
    consumers: tuple[str, ...]
    server_key: SecretRef | None
    texts: tuple[TextTensors, ...] = ()
    routes: tuple[ServeRoute, ...] = ()
    counted: bool = False
    start_seconds: int | None = None
    keeps_connections: bool = False
    task: Task = "generate"
    router: RouterAddress | None = None
    by_name_only: bool = False


@dataclass(frozen=True, kw_only=True)
class GatewayRequirements:
    """The requirements of the gateway for its namespace: a quota of LoadBalancer Services, and
    labels for their controller.
    """

    load_balancers: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


def speaks_grpc(endpoints: Iterable[Endpoint]) -> bool:
    return any(
        protocol.kind == "kserve-v2-grpc" for each in endpoints for protocol in each.protocols
    )
