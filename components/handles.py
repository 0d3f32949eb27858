"""Live values that one component lends to a sibling: small, frozen, and buildable by hand for things we adopt.

Handles carry no behaviour and no secret value; a secret travels as a `SecretRef`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import pulumi

    from components.nodes.accelerators import Accelerator, Taint

EFA_RESOURCE = "vpc.amazonaws.com/efa"
"""What the EFA device plugin offers, one for each EFA interface of a node."""

ProtocolKind = Literal["openai", "kserve-v2-http", "kserve-v2-grpc", "triton-generate", "ray-serve"]


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
class Capacity:
    """What one node offers to pods. Memory and huge pages in bytes, cpu in millicores, accelerators in cards, `efa` in interfaces."""

    cpu_millicores: int
    memory_bytes: int
    accelerators: int = 0
    hugepages_2mi_bytes: int = 0
    ephemeral_storage_bytes: int = 0
    efa: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeTarget:
    """Where pods of a pool may land; lent by a node pool.

    `accelerator` is None for a pool of plain CPU nodes. `capacity` is what one node offers, `nodes` the
    most nodes the pool may have.
    """

    pool: str
    accelerator: Accelerator | None
    node_selector: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Capacity
    nodes: int
    runtime_class: str | None = None


@dataclass(frozen=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim in the inference namespace that several pods may mount.

    `origin` identifies what is mounted (nfs://server/path) and stays when the claim gets another name. `nodes` is the pool whose
    nodes each hold a copy of their own, None for a share that all see alike (RWX).
    """

    name: str
    origin: str | None = None
    capacity_bytes: int | None = None
    nodes: NodeTarget | None = None
    ready: pulumi.Resource | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class EksClusterHandle:
    """An EKS cluster as pools, stores, identities and the Kubernetes provider see it.

    `subnets` are private subnets by zone, empty where only the cluster itself knows its own (`own_subnets`). `before_nodes`
    must be there before a node can join.
    """

    name: pulumi.Input[str]
    region: str
    arn: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    service_cidr: pulumi.Output[str]
    kubernetes_version: pulumi.Output[str]
    security_group: pulumi.Output[str]
    vpc: pulumi.Output[str]
    oidc_issuer: pulumi.Output[str]
    oidc_provider_arn: pulumi.Output[str]
    subnets: Mapping[str, pulumi.Input[str]]
    own_subnets: pulumi.Input[list[str]]
    tags: Mapping[str, str]
    before_nodes: tuple[pulumi.Resource, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class WorkloadIdentity:
    """An AWS role that one service account has. `ready` must be there before its pods start: credentials are handed out at admission."""

    service_account: str
    annotations: Mapping[str, pulumi.Input[str]]
    ready: pulumi.Resource = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ObjectStore:
    """An S3 bucket prefix. `credentials` names a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, `ca` is who signed its certificate.

    `identity` is the AWS role that its reader has instead, None if this stack does not manage the pods' identity. `networks` are
    the networks of its servers, empty if they are not known.
    """

    bucket: str
    prefix: str
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False
    credentials: str | None = None
    ca: CaBundle | None = None
    identity: WorkloadIdentity | None = field(default=None, repr=False)
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WebStore:
    """Files below an HTTP(S) address. `credentials` names a Secret with AUTHORIZATION, the value of that header."""

    url: str
    credentials: str | None = None
    ca: CaBundle | None = None
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HubStore:
    """Repositories of a Hugging Face hub. `credentials` names a Secret with HF_TOKEN."""

    endpoint: str
    credentials: str | None = None
    ca: CaBundle | None = None
    networks: tuple[str, ...] = ()


ModelSource: TypeAlias = ObjectStore | WebStore | HubStore | VolumeClaim


@dataclass(frozen=True, kw_only=True)
class ModelMount:
    """Model files: the directory `sub_path` of a claim, mounted read-only.

    `gate` is the resource to await before a server may start (the preheat Job), None when the files are simply there.
    `marked` says that the directory carries a READY file once it is verified, so that each pod can look for it again.
    `folder` is a directory of the same claim that the model's pods may write to, None if they may write to none.
    """

    claim: VolumeClaim
    sub_path: str
    gate: pulumi.Resource | None = field(default=None, repr=False)
    marked: bool = False
    folder: str | None = None


@dataclass(frozen=True, kw_only=True)
class EndpointProtocol:
    """One way to talk to a model server: a port of its Service and the path prefix its API starts at."""

    kind: ProtocolKind
    port: int
    path: str


@dataclass(frozen=True, kw_only=True)
class TextTensors:
    """How text goes through a model of named tensors: the input that takes a prompt, the output that answers.

    `stream` is the input that asks for the answer in pieces, `tokens` the one that bounds it, None where a model has none (a request's
    parameter of that name may bound it then). `shape` is that of one prompt, the batch
    axis included where there is one. A `decoupled` model may answer in pieces, and then answers to streams only.
    """

    model: str
    input: str
    output: str
    stream: str | None = None
    tokens: str | None = None
    shape: tuple[int, ...] = (1,)
    decoupled: bool = False


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What every engine exports, and all that gateway, policies, monitoring, status and clients read.

    `host` is the Service's DNS name inside the cluster. `server_key` is the engine's own key, never given out; None where the
    server has none. `texts` are the served models of named tensors that take a prompt. `routes` are the paths that applications
    of Ray Serve answer under.
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
    routes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GatewayRequirements:
    """What the gateway requires of its namespace: a quota of LoadBalancer Services, and labels for their controller."""

    load_balancers: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
