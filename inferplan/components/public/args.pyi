"""Made from the specifications by `inferplan schema --write`: the inputs and outputs of the public components."""

from typing import Any, NotRequired, TypedDict

import pulumi


class NodeTaint(TypedDict):
    """A taint of the pool's nodes, in the spelling of the Kubernetes API; pods that target the pool tolerate it."""

    key: str
    """A label key: a name of at most 63 characters, with an optional DNS prefix and a slash."""
    effect: str
    """The effect on pods that do not tolerate the taint. One of: NoSchedule, PreferNoSchedule, NoExecute."""
    value: NotRequired[str]
    """The taint's value; empty by default."""


class MachineShape(TypedDict):
    """The resources that one node offers to pods, as `kubectl get node -o jsonpath={.status.allocatable}` prints it."""

    cpu: str
    """CPU that pods may use."""
    memory: str
    """Memory that pods may use, huge pages not counted."""
    accelerators: NotRequired[int]
    """Number of accelerators of the node. Default: 0."""
    hugepages2_mi: NotRequired[str]
    """2 MiB huge pages reserved at boot; none by default."""
    ephemeral_storage: NotRequired[str]
    """Disk for container images, logs and emptyDir volumes. Default: 50Gi."""


class Replicas(TypedDict):
    """The shares of each device."""

    replicas: int
    """Containers that may have one device at a time."""
    rename_by_default: NotRequired[bool]
    """True if the plugin offers shares as `nvidia.com/gpu.shared`, false if as `nvidia.com/gpu`. Default: false."""


class Sharing(TypedDict):
    """Sharing as the plugin's configuration declares it, with exactly one way."""

    time_slicing: NotRequired[Replicas]
    """Containers take turns. Nothing divides the memory of the device, so each server has to limit its own."""
    mps: NotRequired[Replicas]
    """Containers run at once through MPS, which gives each an equal part of memory and threads."""
    between_consumers: NotRequired[bool]
    """True lets models of different consumers share a device. Nothing isolates their faults and times, and with time slicing not their memory. Default: false."""


class Pool(TypedDict):
    """Nodes that pods run on: the settings of a NodePool."""

    nodes: int
    """Number of nodes."""
    name: str
    """The name of the pool, and the value of the label `inferplan.dev/pool` if `nodeSelector` is absent."""
    accelerator: NotRequired[str]
    """The accelerator of each node; `cpu`, the default, for nodes without one."""
    taints: NotRequired[list[NodeTaint]]
    """Taints of the nodes; `[]` for none. Default: the accelerator's own, for example `nvidia.com/gpu=present:NoSchedule`."""
    runtime_class: NotRequired[str]
    """RuntimeClass of the accelerator's pods; `null` for the nodes' default runtime. Default: `habana` on Gaudi, none on NVIDIA."""
    pre_pull_images: NotRequired[bool]
    """Pulls the models' images onto every node, also onto those that join later, and starts servers once the nodes have them. Default: false."""
    instance_type: NotRequired[str]
    """An instance type of the reference of accelerators, or the resources of one node. Default: the accelerator's usual instance type."""
    machine_shape: NotRequired[MachineShape]
    """Instead of `instance_type`: An instance type of the reference of accelerators, or the resources of one node. Default: the accelerator's usual instance type."""
    mig: NotRequired[str]
    """The MIG profile of every accelerator, with the device plugin's strategy `mixed`; models then get slices."""
    sharing: NotRequired[Sharing]
    """Shares of accelerators, as the device plugin of the nodes offers them, or as a DRA driver makes them for claims. Default: whole accelerators."""
    devices: NotRequired[str]
    """The mechanism by which pods get accelerators: `devicePlugin`, which offers a resource such as nvidia.com/gpu, or `dra`, a DRA driver that allocates ResourceClaims. Default: devicePlugin."""
    node_selector: NotRequired[dict[str, str]]
    """Labels that select the pool's nodes. Default: `inferplan.dev/pool: <name of the pool>`, a label that you add to them."""


class NfsStore(TypedDict):
    """A directory that an NFS server exports to all nodes."""

    server: str
    """The DNS name or IP address of the server."""
    path: str
    """The exported directory. A preheat requires write access for preheat.runAsUser."""
    capacity: str
    """Capacity. Plans check that models fit; Kubernetes does not enforce it."""
    mount_options: NotRequired[list[str]]
    """NFS mount options. They replace all recommended options."""


class ClaimStore(TypedDict):
    """An existing PersistentVolumeClaim in the stack's namespace; it is only mounted."""

    claim_name: str
    """The name of the claim. A preheat into it requires ReadWriteMany and write access for preheat.runAsUser."""
    capacity: NotRequired[str]
    """Capacity. If set, plans check that models fit; the preheat Job always checks."""


class S3Credentials(TypedDict):
    """A Secret in the stack's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""

    secret_name: str
    """The name of an existing Secret. Its values are never part of a stack file."""


class CaBundle(TypedDict):
    """CA certificates in PEM, in one key of a Secret or a ConfigMap of the stack's namespace."""

    secret_name: NotRequired[str]
    """The name of an existing Secret. Set this or configMapName."""
    config_map_name: NotRequired[str]
    """The name of an existing ConfigMap, for example of trust-manager or OpenShift. Set this or secretName."""
    key: NotRequired[str]
    """The key with the certificates. The default is the name that cert-manager and Kubernetes use."""


class S3Store(TypedDict):
    """An S3 bucket, at AWS or at another endpoint, for example MinIO."""

    bucket: str
    """The name of the bucket, by the naming rules of AWS."""
    prefix: NotRequired[str]
    """A path inside a store: names joined by single slashes."""
    region: NotRequired[str]
    """The region of the bucket, for example eu-central-1."""
    endpoint: NotRequired[str]
    """The URL of an S3 API other than AWS: http(s)://host:port."""
    path_style: NotRequired[bool]
    """Use URLs of the form endpoint/bucket/key instead of bucket.endpoint/key. Default: true if endpoint is set."""
    credentials: NotRequired[S3Credentials]
    """Credentials of the store. Default: the pod's identity (Pod Identity, IRSA), which the stack creates on EKS."""
    ca_bundle: NotRequired[CaBundle]
    """The CA of the endpoint's certificate, if it is not a public CA."""
    kms_key_arn: NotRequired[str]
    """The KMS key of an existing encrypted bucket. Readers get permission to decrypt with it."""
    networks: NotRequired[list[str]]
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""


class HttpCredentials(TypedDict):
    """A Secret in the stack's namespace with AUTHORIZATION, the complete value of that header (`Bearer ...`, `Basic ...`)."""

    secret_name: str
    """The name of an existing Secret. Its value is never part of a stack file."""


class HttpStore(TypedDict):
    """Files on an HTTP(S) server, read only by preheats."""

    url: str
    """A URL: http(s)://host with an optional port and path, without password and query."""
    credentials: NotRequired[HttpCredentials]
    """Credentials of the server. Default: none."""
    ca_bundle: NotRequired[CaBundle]
    """The private CA of the server's certificate, trusted in addition to public CAs."""
    networks: NotRequired[list[str]]
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""


class HubCredentials(TypedDict):
    """A Secret in the stack's namespace with HF_TOKEN, a token with read access."""

    secret_name: str
    """The name of an existing Secret. Its value is never part of a stack file."""


class HubStore(TypedDict):
    """Repositories of a Hugging Face hub, each at a pinned commit, read only by preheats."""

    endpoint: NotRequired[str]
    """A URL: http(s)://host with an optional port and path, without password and query. Default: https://huggingface.co."""
    credentials: NotRequired[HubCredentials]
    """Credentials of the hub. Default: none, for public repositories."""
    ca_bundle: NotRequired[CaBundle]
    """The private CA of the hub's certificate, trusted in addition to public CAs."""
    networks: NotRequired[list[str]]
    """The networks of the store's servers. Its readers can then reach these networks only. Default: derived from the host."""


class Store(TypedDict):
    """A place of model files: the settings of a ModelStore. Exactly one kind is set."""

    name: str
    """The name of the store, for messages."""
    nfs: NotRequired[NfsStore]
    """A directory that an NFS server exports to all nodes."""
    claim: NotRequired[ClaimStore]
    """An existing PersistentVolumeClaim in the namespace of the models."""
    s3: NotRequired[S3Store]
    """An existing S3 bucket, at AWS or at another endpoint."""
    http: NotRequired[HttpStore]
    """Files below an HTTP(S) address."""
    hub: NotRequired[HubStore]
    """Repositories of a Hugging Face hub."""
    ready: NotRequired[str]
    """The URN of the resource that must be ready before the files are used."""


class PreheatSettings(TypedDict):
    """Copies a model's files to a share, or to each node's disk, verified, before any accelerator waits for them."""

    into: str
    """The name of a store under storage that pods can mount and write: nfs, efs, pvc or nodeDisk."""
    round: NotRequired[int]
    """Raise it by one to read the source again, into a new directory. Default: 0."""
    keep: NotRequired[int]
    """Number of rounds that stay on the share, the newest first; 2 keeps the one that a rollout replaces. Default: 2."""
    include: NotRequired[list[str]]
    """Only files that match one of these; empty for all."""
    exclude: NotRequired[list[str]]
    """Files to leave out; wins over include."""
    allow_pickle: NotRequired[list[str]]
    """Files to copy although loading them runs code (.bin, .pt, .pth, .ckpt, .pkl, ...); other files of that kind are rejected."""
    strict: NotRequired[bool]
    """Reject files that are neither text nor of a known format of weights, unless allowPickle lists them. Default: false."""
    timeout_seconds: NotRequired[int]
    """Deadline in seconds. Absent: from the weights' size at 50 MiB/s, at least half an hour; six hours without a size."""
    ttl_seconds_after_finished: NotRequired[int]
    """Seconds until Kubernetes removes the finished Job; null for never. The next update creates it again, and it copies nothing. Default: 2592000."""
    cpu: NotRequired[str]
    """CPU of the transfer; checksums run on as many cores. Default: 2."""
    memory: NotRequired[str]
    """Memory of the transfer. The program needs less than 256Mi; the rest is page cache. Default: 1Gi."""
    run_as_user: NotRequired[int]
    """The numeric user and group that writes. The share must allow it, because NFS ignores fsGroup. Default: 65532."""
    image: NotRequired[str]
    """An image with Python 3.11 or newer, and with huggingface_hub for a store of kind huggingface. Absent: a suitable image."""
    rclone_image: NotRequired[str]
    """An image with rclone at /usr/local/bin/rclone. Default: docker.io/rclone/rclone:1.75.0."""


class ModelFiles(TypedDict):
    """The files of a model: the `files` of a Preheat, or a directory of a store that servers read directly."""

    store: Store
    """The store that servers mount, or stream from if it is a bucket."""
    path: str
    """A path inside a store: names joined by single slashes."""
    revision: NotRequired[str]
    """The version of the files."""
    size: NotRequired[str]
    """Total size of the files, such as 16Gi; used to check deadlines and accelerator memory."""
    preheat: NotRequired[PreheatSettings]
    """The settings of the Preheat that wrote the files; servers then check that they are complete."""
    folder: NotRequired[str]
    """A directory of the same store that the model's pods may write to."""
    ready: NotRequired[str]
    """The URN of the resource that must be ready before the files are used."""


class EndpointProtocol(TypedDict):
    """A protocol of a model server: a port of its Service and the path prefix of its API."""

    kind: str
    """Kind."""
    port: int
    """Port."""
    path: str
    """Path."""


class SecretRef(TypedDict):
    """One key of a Kubernetes Secret in the inference namespace."""

    name: str
    """Name."""
    key: str
    """Key."""


class TextTensors(TypedDict):
    """The tensors of a model that generates text: the input for the prompt and the output with the response.

`stream` is the input that requests streaming and `tokens` the input of type `tokens_type` that limits the length, None if the model has none (a request parameter of that name may limit it instead). `shape` is that of one prompt, including a batch axis if there is one. A `decoupled` model may send several responses, and then answers only streaming calls."""

    model: str
    """Model."""
    input: str
    """Input."""
    output: str
    """Output."""
    stream: NotRequired[str]
    """Stream."""
    tokens: NotRequired[str]
    """Tokens."""
    tokens_type: NotRequired[str]
    """Tokens type."""
    shape: NotRequired[list[int]]
    """Shape."""
    decoupled: NotRequired[bool]
    """Decoupled."""


class ServeRoute(TypedDict):
    """The calls of one Ray Serve application that clients may make: paths below `prefix`, with these methods and request headers."""

    prefix: NotRequired[str]
    """Prefix."""
    methods: NotRequired[list[str]]
    """Methods."""
    web_socket: NotRequired[bool]
    """Web socket."""
    headers: NotRequired[list[str]]
    """Headers."""


class RouterAddress(TypedDict):
    """The Service of a model's router. `alone` if the model's own Service cannot answer calls."""

    host: str
    """Host."""
    port: int
    """Port."""
    alone: NotRequired[bool]
    """Alone."""


class ModelEndpoint(TypedDict):
    """The endpoint that every engine exports for the gateway, policies, monitoring, status and clients.

`host` is the Service's DNS name inside the cluster. `server_key` is the key of the model server, None if it has none. `texts` are the served models that generate text from named tensors. `routes` are the Ray Serve applications. `counted` says that the gateway counts the requests; `start_seconds` is set if the model can have no replica. `keeps_connections` says that the server is a known one, which closes idle connections after 5 seconds or later. `task` is what the model does with a request. The gateway calls `router` instead of the Service while it answers. `by_name_only` says that the name in a body decides who may call, so that the gateway takes calls at /v1 only."""

    model: str
    """Model."""
    engine: str
    """Engine."""
    host: str
    """Host."""
    protocols: list[EndpointProtocol]
    """Protocols."""
    health_path: str
    """Health path."""
    metrics_path: str
    """Metrics path."""
    metrics_port: int
    """Metrics port."""
    served_names: list[str]
    """Served names."""
    consumers: list[str]
    """Consumers."""
    server_key: SecretRef
    """Server key."""
    texts: NotRequired[list[TextTensors]]
    """Texts."""
    routes: NotRequired[list[ServeRoute]]
    """Routes."""
    counted: NotRequired[bool]
    """Counted."""
    start_seconds: NotRequired[int]
    """Start seconds."""
    keeps_connections: NotRequired[bool]
    """Keeps connections."""
    task: NotRequired[str]
    """Task."""
    router: NotRequired[RouterAddress]
    """Router."""
    by_name_only: NotRequired[bool]
    """By name only."""


class Limits(TypedDict):
    """Limits of one consumer over all models. Each gateway replica enforces an equal part of all but tokensPerDay, rounded up."""

    requests_per_minute: NotRequired[int]
    """Maximum requests per minute. Default: unlimited."""
    burst: NotRequired[int]
    """Requests above the rate that are accepted at once. Default: a tenth of requestsPerMinute."""
    concurrent_requests: NotRequired[int]
    """Maximum concurrent requests, including streams. Default: 1024 for each replica of the gateway, 4096 if there is one consumer."""
    tokens_per_day: NotRequired[int]
    """Tokens in and out of a day, from 00:00 UTC. Later calls get 429 until the next day. All models of the consumer need usageLog. Default: unlimited."""


class Consumer(TypedDict):
    """A holder of API keys. To rotate a key, add a version, move the clients to it, then remove the old version."""

    keys: list[int]
    """The valid key versions. Clients inside the cluster get the highest."""
    expires: NotRequired[dict[str, str]]
    """The last valid day (UTC) of a key version, by version. The gateway denies the key afterwards."""
    issued: NotRequired[dict[str, str]]
    """The day (UTC) a key version was added, by version. `inferplan keys add` sets it; a policy limits the age of keys."""
    limits: NotRequired[Limits]
    """Limits of one consumer over all models. Each gateway replica enforces an equal part of all but tokensPerDay, rounded up."""


class ApiKeysArgs(TypedDict):
    """The inputs of ApiKeys."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    seed: pulumi.Input[str]
    """The secret that every key is derived from, at least 32 random characters: `openssl rand -hex 32`."""
    consumers: dict[str, Consumer]
    """The holders of API keys by name; the same for ApiKeys and Gateway."""
    models: list[str]
    """The names of the models, whose servers get a key each."""


class Cors(TypedDict):
    """Web pages that may call the gateway from a browser. Default: none."""

    origins: list[str]
    """Origins."""


class Tls(TypedDict):
    """The certificate that the Ingress uses."""

    secret_name: str
    """A Secret of type kubernetes.io/tls in the stack's namespace. With clusterIssuer, cert-manager creates it."""
    cluster_issuer: NotRequired[str]
    """A cert-manager ClusterIssuer that issues the certificate. Default: you create the Secret."""


class Alb(TypedDict):
    """An AWS Application Load Balancer that the AWS Load Balancer Controller creates for the Ingress."""

    certificate_arn: str
    """The ARN of an ACM certificate in the region of the cluster."""
    scheme: NotRequired[str]
    """The reach of its addresses: only the VPC (internal) or the internet (internet-facing). Default: internal."""
    inbound_cidrs: NotRequired[list[str]]
    """The networks that may connect. Required for scheme internet-facing. Use 0.0.0.0/0 to allow all."""


class Nlb(TypedDict):
    """An AWS Network Load Balancer that the AWS Load Balancer Controller creates for a Service of type LoadBalancer."""

    certificate_arn: str
    """The ARN of an ACM certificate in the region of the cluster."""
    scheme: NotRequired[str]
    """The reach of its addresses: only the VPC (internal) or the internet (internet-facing). Default: internal."""
    inbound_cidrs: NotRequired[list[str]]
    """The networks that may connect. Required for scheme internet-facing. Use 0.0.0.0/0 to allow all."""


class GatewayParent(TypedDict):
    """An existing Gateway of the Gateway API. It has its own TLS settings and addresses."""

    name: str
    """The name of the Gateway."""
    namespace: str
    """The namespace of the Gateway."""
    section_name: NotRequired[str]
    """The listener to attach to. Default: all listeners."""


class Autoscaling(TypedDict):
    """Scales the gateway's replicas by CPU utilization. `replicas` is then the minimum."""

    max_replicas: int
    """Maximum number of replicas."""
    cpu_percent: NotRequired[int]
    """Target average CPU utilization, in percent of the CPU request. Default: 70."""


class GatewayArgs(TypedDict):
    """The inputs of Gateway."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    endpoints: list[pulumi.Input[ModelEndpoint]]
    """The models: the `endpoint` of each service."""
    consumers: dict[str, Consumer]
    """The holders of API keys by name; the same for ApiKeys and Gateway."""
    keys_secret: pulumi.Input[str]
    """The `gateway_secret` of ApiKeys."""
    keys_fingerprint: pulumi.Input[str]
    """The `gateway_fingerprint` of ApiKeys; pods restart when it changes."""
    cors: NotRequired[Cors]
    """Web pages that may call the gateway from a browser. Default: none."""
    read_timeout_seconds: NotRequired[int]
    """Read timeout: seconds without data from the model. Default: 2000."""
    host: NotRequired[str]
    """DNS name that clients call. Required unless exposure is internal."""
    exposure: NotRequired[str]
    """The exposure: an Ingress, an HTTPRoute on an existing Gateway, a network load balancer, or only inside the cluster. One of: ingress, gatewayApi, loadBalancer, internal. Default: ingress."""
    path_prefix: NotRequired[str]
    """A path in front of the models' names that clients already use, for example /llm/v2. The Ingress or route takes only calls below it. gRPC has no path. Default: none."""
    tls: NotRequired[Tls]
    """The certificate that the Ingress uses."""
    alb: NotRequired[Alb]
    """An Application Load Balancer for exposure ingress. Its certificate replaces tls."""
    nlb: NotRequired[Nlb]
    """A Network Load Balancer for exposure loadBalancer."""
    insecure: NotRequired[bool]
    """Serves plain HTTP at the Ingress, so keys cross the network in plain text. For trials only. Default: false."""
    ingress_class_name: NotRequired[str]
    """The ingress class. Default: the default class of the cluster."""
    parent: NotRequired[GatewayParent]
    """The Gateway to attach to. Required for exposure gatewayApi."""
    replicas: NotRequired[int]
    """Number of nginx pods. Default: 2."""
    autoscaling: NotRequired[Autoscaling]
    """Scales the gateway's replicas by CPU utilization. `replicas` is then the minimum."""
    image: NotRequired[str]
    """An nginx image that runs as a non-root user and contains sh and awk. Default: docker.io/nginxinc/nginx-unprivileged:1.30.4-alpine."""
    drain_seconds: NotRequired[int]
    """Seconds that a terminating pod has to finish running responses. Default: 600."""
    start_wait_seconds: NotRequired[int]
    """Seconds that a request waits for a model without replicas to start. Default: the gateway answers 503 with Retry-After at once. A pod holds up to 64 requests with bodies of up to 1 MiB; others get the answer at once."""
    max_body_size: NotRequired[str]
    """Maximum size of a request body. Prompts with images need more than text. Default: 64Mi."""
    trusted_proxies: NotRequired[list[str]]
    """Networks of the proxies in front, whose X-Forwarded-For states the client's address. The gateway then limits the requests of each address. Default: trust none."""


class InferenceNamespaceArgs(TypedDict):
    """The inputs of InferenceNamespace."""

    pools: list[pulumi.Input[Pool]]
    """Pools whose accelerators pods of the namespace may request."""
    name: NotRequired[str]
    """The name of the namespace. Default: the name of the component."""
    monthly_usd: NotRequired[int]
    """The most that the stack may cost, in US dollars a month; policies check it. Default: no limit."""
    load_balancers: NotRequired[int]
    """Services of type LoadBalancer that the namespace may have. Default: 0."""


class ModelStoreArgs(TypedDict):
    """The inputs of ModelStore."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    scope: NotRequired[str]
    """A name that keeps the volumes of two stacks on one cluster apart. Default: <project>-<stack>."""
    nfs: NotRequired[NfsStore]
    """A directory that an NFS server exports to all nodes."""
    claim: NotRequired[ClaimStore]
    """An existing PersistentVolumeClaim in the namespace of the models."""
    s3: NotRequired[S3Store]
    """An existing S3 bucket, at AWS or at another endpoint."""
    http: NotRequired[HttpStore]
    """Files below an HTTP(S) address."""
    hub: NotRequired[HubStore]
    """Repositories of a Hugging Face hub."""


class NodePoolArgs(TypedDict):
    """The inputs of NodePool."""

    nodes: int
    """Number of nodes."""
    accelerator: NotRequired[str]
    """The accelerator of each node; `cpu`, the default, for nodes without one."""
    taints: NotRequired[list[NodeTaint]]
    """Taints of the nodes; `[]` for none. Default: the accelerator's own, for example `nvidia.com/gpu=present:NoSchedule`."""
    runtime_class: NotRequired[str]
    """RuntimeClass of the accelerator's pods; `null` for the nodes' default runtime. Default: `habana` on Gaudi, none on NVIDIA."""
    instance_type: NotRequired[str]
    """An instance type of the reference of accelerators, or the resources of one node. Default: the accelerator's usual instance type."""
    machine_shape: NotRequired[MachineShape]
    """Instead of `instance_type`: An instance type of the reference of accelerators, or the resources of one node. Default: the accelerator's usual instance type."""
    mig: NotRequired[str]
    """The MIG profile of every accelerator, with the device plugin's strategy `mixed`; models then get slices."""
    sharing: NotRequired[Sharing]
    """Shares of accelerators, as the device plugin of the nodes offers them, or as a DRA driver makes them for claims. Default: whole accelerators."""
    devices: NotRequired[str]
    """The mechanism by which pods get accelerators: `devicePlugin`, which offers a resource such as nvidia.com/gpu, or `dra`, a DRA driver that allocates ResourceClaims. Default: devicePlugin."""
    node_selector: NotRequired[dict[str, str]]
    """Labels that select the pool's nodes. Default: `inferplan.dev/pool: <name of the pool>`, a label that you add to them."""


class PreheatArgs(TypedDict):
    """The inputs of Preheat."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    source: pulumi.Input[Store]
    """The store to copy from: the `store` of a ModelStore."""
    target: pulumi.Input[Store]
    """The share to copy to: the `store` of a ModelStore with nfs or claim."""
    path: str
    """A path inside a store: names joined by single slashes."""
    folder: NotRequired[str]
    """A directory of the share to make for the model's pods to write to. Default: none."""
    revision: NotRequired[str]
    """The version of the files. Each revision is copied to its own directory. Without a revision, raise preheat.round to copy again."""
    files: NotRequired[dict[str, str]]
    """The files in a store of kind http, each with its sha256 or null. Default: the files in SHA256SUMS, or those on the index pages."""
    size: NotRequired[str]
    """Total size of the files, used to check deadlines, accelerator memory and capacity."""
    round: NotRequired[int]
    """Raise it by one to read the source again, into a new directory. Default: 0."""
    keep: NotRequired[int]
    """Number of rounds that stay on the share, the newest first; 2 keeps the one that a rollout replaces. Default: 2."""
    include: NotRequired[list[str]]
    """Only files that match one of these; empty for all."""
    exclude: NotRequired[list[str]]
    """Files to leave out; wins over include."""
    allow_pickle: NotRequired[list[str]]
    """Files to copy although loading them runs code (.bin, .pt, .pth, .ckpt, .pkl, ...); other files of that kind are rejected."""
    strict: NotRequired[bool]
    """Reject files that are neither text nor of a known format of weights, unless allowPickle lists them. Default: false."""
    timeout_seconds: NotRequired[int]
    """Deadline in seconds. Absent: from the weights' size at 50 MiB/s, at least half an hour; six hours without a size."""
    ttl_seconds_after_finished: NotRequired[int]
    """Seconds until Kubernetes removes the finished Job; null for never. The next update creates it again, and it copies nothing. Default: 2592000."""
    cpu: NotRequired[str]
    """CPU of the transfer; checksums run on as many cores. Default: 2."""
    memory: NotRequired[str]
    """Memory of the transfer. The program needs less than 256Mi; the rest is page cache. Default: 1Gi."""
    run_as_user: NotRequired[int]
    """The numeric user and group that writes. The share must allow it, because NFS ignores fsGroup. Default: 65532."""
    image: NotRequired[str]
    """An image with Python 3.11 or newer, and with huggingface_hub for a store of kind huggingface. Absent: a suitable image."""
    rclone_image: NotRequired[str]
    """An image with rclone at /usr/local/bin/rclone. Default: docker.io/rclone/rclone:1.75.0."""


class SecretKey(TypedDict):
    """One value of a Secret in the stack's namespace."""

    secret_name: str
    """The name of an existing Secret. Its values are never part of a stack file."""
    key: str
    """The key of the value in the Secret."""


class EgressPeer(TypedDict):
    """Servers that the model's pods may call."""

    ports: list[int]
    """TCP ports of the servers; of a Service, the ports of its pods."""
    host: NotRequired[str]
    """The host that the model calls: a Service (qdrant.vectors.svc), an IP address, or a domain name, which also needs cidrs."""
    cidrs: NotRequired[list[str]]
    """The networks of the servers. 0.0.0.0/0 is every address, which the policy pack blocks without an exemption."""


class EgressProxy(TypedDict):
    """An HTTP proxy. The pods get HTTP_PROXY, HTTPS_PROXY and NO_PROXY, also in lower case."""

    url: str
    """The URL of the proxy: http://host:port."""
    cidrs: NotRequired[list[str]]
    """The networks of the proxy. Required unless its host is an IP address or a Service."""
    no_proxy: NotRequired[list[str]]
    """Further hosts that are called directly. Services of the cluster and the hosts under `to` always are."""


class Egress(TypedDict):
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default: none."""

    to: NotRequired[list[EgressPeer]]
    """Servers that the pods may call."""
    proxy: NotRequired[EgressProxy]
    """An HTTP proxy. The pods get HTTP_PROXY, HTTPS_PROXY and NO_PROXY, also in lower case."""
    not_called: NotRequired[list[str]]
    """Variables and arguments whose values look like addresses but are never called, for example PUBLIC_URL."""


class PullSecret(TypedDict):
    """A Secret of type kubernetes.io/dockerconfigjson in the stack's namespace."""

    name: str
    """The name of an existing Secret. Its values are never part of a stack file."""


class Toleration(TypedDict):
    """A toleration of Kubernetes."""

    key: NotRequired[str]
    """The key of the taint."""
    operator: NotRequired[str]
    """`Exists` matches every value of the key. One of: Exists, Equal. Default: Equal."""
    value: NotRequired[str]
    """The value of the taint."""
    effect: NotRequired[str]
    """The effect of the taint. Default: every effect. One of: NoSchedule, PreferNoSchedule, NoExecute."""
    toleration_seconds: NotRequired[int]
    """With effect NoExecute: seconds until a pod is evicted. Default: never."""


class ClaimSource(TypedDict):
    """A PersistentVolumeClaim in the stack's namespace."""

    claim_name: str
    """The name of an existing claim."""


class ConfigMapSource(TypedDict):
    """A ConfigMap in the stack's namespace."""

    name: str
    """The name of an existing ConfigMap."""


class ExtraVolume(TypedDict):
    """A further volume of a model's pods, from one source."""

    mount_path: str
    """The directory in the containers."""
    persistent_volume_claim: NotRequired[ClaimSource]
    """A PersistentVolumeClaim in the stack's namespace."""
    config_map: NotRequired[ConfigMapSource]
    """A ConfigMap in the stack's namespace."""
    sub_path: NotRequired[str]
    """A path inside the volume. Default: the whole volume."""
    read_only: NotRequired[bool]
    """False lets the pods write to a claim. Default: true."""


class ScalingSignals(TypedDict):
    """The signals that the number of replicas follows. With several signals, the one that needs the most replicas decides."""

    cpu: NotRequired[int]
    """Average CPU use in percent of the CPU request, by a HorizontalPodAutoscaler. It needs no KEDA, and cannot be combined."""
    waiting_requests: NotRequired[int]
    """vLLM: waiting requests for each replica (vllm:num_requests_waiting)."""
    kv_cache_percent: NotRequired[int]
    """vLLM: average use of the KV cache (vllm:kv_cache_usage_perc)."""
    queue_milliseconds: NotRequired[int]
    """Triton, also behind TensorRT-LLM and PyTriton: average time of a request in the queue (nv_inference_queue_duration_us)."""
    requests_in_flight: NotRequired[int]
    """Any engine: requests for each replica that the gateway has sent and that are not answered yet."""
    ongoing_requests: NotRequired[float]
    """Ray Serve: requests for each replica of an application (target_ongoing_requests), by Ray's own autoscaler."""


class Scaling(TypedDict):
    """A number of replicas that follows the load, between `min` and `max`."""

    min: int
    """The minimum number of replicas. With 0, the model stops when no requests come, and the next request at the gateway starts it."""
    max: int
    """The maximum number of replicas. The pool, the quota and the budget must have room for it."""
    on: NotRequired[ScalingSignals]
    """The signals that the number follows. Default: the engine's own."""
    cooldown_seconds: NotRequired[int]
    """Seconds of low load before replicas stop, 30 at least. Default: the time that a replica needs to start, 5 minutes at least."""


class NodeTerm(TypedDict):
    """A condition on a label of a node, as in Kubernetes."""

    key: str
    """A label key: a name of at most 63 characters, with an optional DNS prefix and a slash."""
    operator: NotRequired[str]
    """The comparison. One of: In, NotIn, Exists, DoesNotExist, Gt, Lt. Default: In."""
    values: NotRequired[list[str]]
    """The values to compare with."""


class PreferredNodeTerm(TypedDict):
    """A condition that preferred nodes meet."""

    key: str
    """A label key: a name of at most 63 characters, with an optional DNS prefix and a slash."""
    operator: NotRequired[str]
    """The comparison. One of: In, NotIn, Exists, DoesNotExist, Gt, Lt. Default: In."""
    values: NotRequired[list[str]]
    """The values to compare with."""
    weight: NotRequired[int]
    """The weight among all preferences. Default: 1."""


class Affinity(TypedDict):
    """Further terms on the nodes of pods, in addition to the pool's."""

    required_nodes: NotRequired[list[NodeTerm]]
    """Conditions that a node of the pool must meet."""
    preferred_nodes: NotRequired[list[PreferredNodeTerm]]
    """Conditions that preferred nodes of the pool meet."""
    pod_affinity: NotRequired[list[str]]
    """Models of this stack. Pods run only on nodes that run each of them."""
    pod_anti_affinity: NotRequired[list[str]]
    """Models of this stack. No pod runs on a node that runs one of them."""


class ModelResources(TypedDict):
    """The requests of one replica, except accelerators. Default: its share of the node, in proportion to its accelerators."""

    cpu: NotRequired[str]
    """CPU request; there is no CPU limit, since throttling stalls the accelerator."""
    memory: NotRequired[str]
    """Memory, request and limit alike; shared memory counts against it."""
    hugepages2_mi: NotRequired[str]
    """2 MiB huge pages, request and limit alike; on Gaudi by default the accelerator table's value for each accelerator."""


class Weights(TypedDict):
    """The weights of a model: a path in a store, pinned to a revision."""

    store: str
    """The name of a store in storage."""
    path: str
    """A path inside a store: names joined by single slashes."""
    revision: NotRequired[str]
    """The version of the files. Each revision is copied to its own directory. Without a revision, raise preheat.round to copy again."""
    files: NotRequired[dict[str, str]]
    """The files in a store of kind http, each with its sha256 or null. Default: the files in SHA256SUMS, or those on the index pages."""
    size: NotRequired[str]
    """Total size of the files, used to check deadlines, accelerator memory and capacity."""


class Artifact(TypedDict):
    """A directory of a store that a model's servers get as /artifacts/<name>, read-only.

Each artifact (adapters, a tokenizer, engines, a repository) has its own preheat, to the share of the model's weights."""

    store: str
    """The name of a store in storage."""
    path: str
    """A path inside a store: names joined by single slashes."""
    revision: NotRequired[str]
    """The version of the files. Each revision is copied to its own directory. Without a revision, raise preheat.round to copy again."""
    files: NotRequired[dict[str, str]]
    """The files in a store of kind http, each with its sha256 or null. Default: the files in SHA256SUMS, or those on the index pages."""
    size: NotRequired[str]
    """Total size of the files, used to check deadlines, accelerator memory and capacity."""
    round: NotRequired[int]
    """Raise it by one to read the source again, into a new directory; the round of the weights stays. Default: 0."""
    include: NotRequired[list[str]]
    """Only files that match one of these; empty for all."""
    exclude: NotRequired[list[str]]
    """Files to leave out; wins over include."""
    allow_pickle: NotRequired[list[str]]
    """Files to copy although loading them runs code; other files of that kind are rejected."""


class Traffic(TypedDict):
    """The requests that all replicas of a model serve together: averages, or a recorded trace."""

    requests_per_second: NotRequired[float]
    """Requests per second to all replicas, at the time that the objective has to hold."""
    input_tokens: NotRequired[int]
    """Mean number of tokens of a prompt."""
    output_tokens: NotRequired[int]
    """Mean number of tokens of an answer."""
    shared_prefix_percent: NotRequired[int]
    """Share of a prompt that the prefix cache already has, such as a system prompt. Default: 0."""
    trace: NotRequired[str]
    """A file of recorded requests, below the project's folder: Mooncake's JSON lines or Azure's CSV (docs/prediction.md)."""
    model: NotRequired[str]
    """The published model whose layers this model has, as Hugging Face names it, or its config.json below the project's folder. Default: the model that the path of the weights names."""


class Slo(TypedDict):
    """The objective: times that at least `percentile` percent of the requests keep, and the percent of requests that succeed."""

    ttft: NotRequired[str]
    """Longest time to the first token of an answer."""
    itl: NotRequired[str]
    """Longest time between two tokens of an answer, as the mean of one answer."""
    percentile: NotRequired[int]
    """Percent of the requests that keep the times. Default: 95."""
    availability: NotRequired[float]
    """Percent of the requests that do not fail on the server's side. Alerts of `monitoring.rules` watch it; predictions do not."""


class RemoteCode(TypedDict):
    """A review of the Python files of a model. It holds for one revision."""

    reviewed_by: str
    """The person or team that read the files and accepts that they run with the server's key and network access."""
    revision: str
    """A commit (40 hex digits) or a fixed version; of an image its digest, sha256:<64 hex digits>. Branch names such as main are rejected."""


class Router(TypedDict):
    """A router between the gateway and a model: prompts with the same beginning go to the same replica, which has it in its cache, unless that replica is much busier than the others."""

    policy: NotRequired[str]
    """The choice of a replica, in the words of smg. `prefix_hash` chooses by the beginning of the prompt, alike in all router pods; `cache_aware` remembers the prompts of each replica, for itself in each router pod. One of: prefix_hash, cache_aware, power_of_two, round_robin, random. Default: prefix_hash."""
    prefix_token_count: NotRequired[int]
    """Tokens of the beginning that `prefix_hash` reads, four characters each. Default: smg's, 256. Raise it where all prompts have a longer beginning in common."""
    replicas: NotRequired[int]
    """Number of router pods. While none is ready, the gateway calls the model's Service instead. Default: 2."""
    api_networks: NotRequired[list[str]]
    """Networks with the cluster's Kubernetes API, which the router asks for pods. Default: the private networks and 100.64.0.0/10."""
    image: NotRequired[str]
    """An image of smg (Shepherd Model Gateway). Default: docker.io/lightseekorg/smg:1.13.0."""


class Side(TypedDict):
    """The servers of one side of a split model. All other settings are the model's, for both sides."""

    replicas: NotRequired[int]
    """Number of servers, or the range {min, max} that follows the load of this side. Default: 1."""
    autoscaling: NotRequired[Scaling]
    """Instead of `replicas`: Number of servers, or the range {min, max} that follows the load of this side."""
    pool: NotRequired[str]
    """The node pool of this side. Default: the model's pool."""
    tensor_parallel_size: NotRequired[int]
    """Accelerators that each layer is split over on this side. Default: the model's."""


class Bucket(TypedDict):
    """The sizes that one dimension is padded to. Each size is compiled before the first answer."""

    min: NotRequired[int]
    """The smallest size."""
    step: NotRequired[int]
    """The distance between sizes."""
    max: NotRequired[int]
    """The largest size."""
    pad_max: NotRequired[int]
    """Maximum padding in the unit of the dimension; for the strategy `pad` only."""
    pad_percent: NotRequired[int]
    """Maximum padding in percent of the size; for the strategy `pad` only."""


class GaudiTuning(TypedDict):
    """The graphs that vllm-gaudi compiles, and the memory that it reserves for them."""

    bucketing_strategy: NotRequired[str]
    """`exp` doubles the sizes, `lin` steps evenly, `pad` limits the padding. Default: exp."""
    prompt_bs_bucket: NotRequired[Bucket]
    """Prompts in one batch; `max` also limits how many are processed at once."""
    prompt_query_bucket: NotRequired[Bucket]
    """Tokens of a prompt."""
    prompt_ctx_bucket: NotRequired[Bucket]
    """Blocks of context that are already in the cache."""
    decode_bs_bucket: NotRequired[Bucket]
    """Sequences in one decoding step."""
    decode_block_bucket: NotRequired[Bucket]
    """Cache blocks of a batch."""
    graph_reserved_mem: NotRequired[float]
    """Share of the free memory for compiled graphs. Default: 0.1."""
    contiguous_pa: NotRequired[bool]
    """Contiguous paged attention, which excludes prefix caching."""
    skip_warmup: NotRequired[bool]
    """Compiles each size at its first request, which then waits. For development only. Default: false."""


class VllmServiceArgs(TypedDict):
    """The inputs of VllmService."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    pool: pulumi.Input[Pool]
    """The nodes that replicas run on: the `pool` of a NodePool."""
    weights: pulumi.Input[ModelFiles]
    """The files of the model: the `files` of a Preheat, or a directory of a store."""
    server_key_mark: pulumi.Input[str]
    """The entry of this model in `server_key_marks` of ApiKeys, which makes the Secret with the server's key."""
    artifacts: NotRequired[dict[str, pulumi.Input[ModelFiles]]]
    """Further files by name, mounted at /artifacts/<name>: the `files` of a Preheat each."""
    prometheus: NotRequired[str]
    """The URL of the Prometheus that scalers query. Required with autoscaling."""
    accelerators_of_others: NotRequired[int]
    """Accelerators of the pool that other models request, to check a rollout. Default: 0."""
    env: NotRequired[dict[str, str]]
    """Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    secret_env: NotRequired[dict[str, SecretKey]]
    """Next to `env`: Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    egress: NotRequired[Egress]
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default: none."""
    labels: NotRequired[dict[str, str]]
    """Further labels on the pods."""
    annotations: NotRequired[dict[str, str]]
    """Further annotations on the pods."""
    image_pull_secrets: NotRequired[list[PullSecret]]
    """Secrets that open the private registry of the image, in addition to the stack's."""
    priority_class_name: NotRequired[str]
    """The PriorityClass of the pods, which must exist."""
    scratch: NotRequired[str]
    """The directory of the pods' own volumes for temporary files and caches. Default: /tmp and /cache, where they hide files of the image."""
    scheduler_name: NotRequired[str]
    """The scheduler of the pods. Default: the cluster's default scheduler."""
    tolerations: NotRequired[list[Toleration]]
    """Further tolerations. The taints of the pool are tolerated without them."""
    volumes: NotRequired[dict[str, ExtraVolume]]
    """Further volumes by name, from existing claims and ConfigMaps."""
    replicas: NotRequired[int]
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods. Default: 1."""
    autoscaling: NotRequired[Scaling]
    """Instead of `replicas`: Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods."""
    accelerators: NotRequired[int]
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    affinity: NotRequired[Affinity]
    """Further terms on the nodes of pods, in addition to the pool's."""
    rollout: NotRequired[str]
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the successor first and needs free accelerators. Default: inPlace."""
    resources: NotRequired[ModelResources]
    """The requests of one replica, except accelerators. Default: its share of the node, in proportion to its accelerators."""
    shared_memory: NotRequired[str]
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11). Default: 2Gi."""
    load_mib_per_second: NotRequired[int]
    """The lowest rate of reading weights. With their size, it sets the startup budget. Default: 200."""
    warmup_seconds: NotRequired[int]
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: NotRequired[int]
    """Seconds that a terminating server has to finish running requests. Default: 60."""
    image: NotRequired[str]
    """Default: the accelerator table's image for this engine, on CPUs that of its build for CPUs."""
    traffic: NotRequired[Traffic]
    """The requests to plan for. Plans and reports then show speed, capacity and the price of a million tokens (docs/prediction.md)."""
    slo: NotRequired[Slo]
    """The objective. With `traffic`, a change that misses it is a risk of the report; with `monitoring.rules`, alerts watch it."""
    consumers: NotRequired[list[str]]
    """Consumers whose keys open this model. Default: none."""
    trust_remote_code: NotRequired[RemoteCode]
    """Lets the server run Python files of the model, after a review of one revision. The policy pack blocks it until a reviewer adds an exemption. One of: False. Default: false."""
    tensor_parallel_size: NotRequired[int]
    """Accelerators that each layer is split over. Default: 1."""
    pipeline_parallel_size: NotRequired[int]
    """Stages of the layers, each on its own accelerators. Default: 1."""
    router: NotRequired[Router]
    """Sends prompts with the same beginning to the same replica, which has it in its cache. Default: the model's Service chooses a replica at random; a split model always has a router."""
    nnodes: NotRequired[int]
    """Nodes that one replica spans, with one pod per node. A LeaderWorkerSet keeps the pods together. Default: 1."""
    served_model_name: NotRequired[str]
    """The name that clients send as `model`. Default: the model's key in this file."""
    lora_consumers: NotRequired[dict[str, list[str]]]
    """Consumers of an adapter by its name, who need no right to the base model. Default: the consumers of the model. With it, the model and its adapters are called at /v1 only."""
    max_model_len: NotRequired[Any]
    """Context length in tokens. Default: the model's own. One of: auto."""
    max_num_seqs: NotRequired[int]
    """Maximum requests in one step of the engine. Default: vLLM decides."""
    max_num_batched_tokens: NotRequired[int]
    """Maximum tokens in one step of the engine, over all requests. Default: vLLM decides."""
    gpu_memory_utilization: NotRequired[float]
    """Share of the device memory that vLLM may use; vLLM's default is 0.92 (0.33.0)."""
    dtype: NotRequired[str]
    """The data type of weights. Default: bfloat16 on Gaudi, half on accelerators without bfloat16, vLLM's choice elsewhere. One of: auto, bfloat16, float, float16, float32, half."""
    quantization: NotRequired[str]
    """The quantization of the weights as vLLM names it (fp8, awq, ...). Default: the checkpoint's."""
    kv_cache_dtype: NotRequired[str]
    """The data type of the KV cache as vLLM names it (fp8, ...). Default: the model's own."""
    block_size: NotRequired[int]
    """Tokens in a block of the KV cache. Default: 128 on Gaudi, vLLM's choice elsewhere."""
    enable_prefix_caching: NotRequired[bool]
    """Reuses the KV cache for prompts with the same beginning. Default: vLLM decides."""
    lora_adapters: NotRequired[dict[str, str]]
    """LoRA adapters by name, each a directory below that of the weights."""
    max_lora_rank: NotRequired[int]
    """The largest rank of an adapter; vLLM's default is 16. One of: 1, 8, 16, 32, 64, 128, 256, 320, 512."""
    max_loras: NotRequired[int]
    """Adapters in one batch; vLLM's default is 1."""
    task: NotRequired[str]
    """The work of the model: `generate` text (chat and completions), `embed`, `rerank` or `classify` texts, or `transcribe` speech. Default: generate."""
    gaudi: NotRequired[GaudiTuning]
    """Compilation and warm-up of vLLM on Gaudi. Default: vllm-gaudi decides."""
    lora_artifacts: NotRequired[dict[str, str]]
    """Further LoRA adapters by the name that clients send as `model`, each the name of an artifact that holds it."""
    lora_loading: NotRequired[str]
    """When servers load the adapters of loraArtifacts: `start` loads them with the model, `runtime` at the first request after their files are copied, so that adding one restarts no server. Default: start."""
    tokenizer: NotRequired[str]
    """The artifact that holds the tokenizer. Default: the tokenizer next to the weights."""
    usage_log: NotRequired[bool]
    """True makes the server print the tokens and times of each request, which `inferplan usage` reads. A change restarts it. Default: false."""
    extra_args: NotRequired[list[str]]
    """Further `vllm serve` arguments as vLLM spells them. Arguments that a field sets are rejected."""


class TritonPorts(TypedDict):
    """The ports of the server. Default: Triton's own."""

    http: NotRequired[int]
    """The port of the HTTP protocol. Default: 8000."""
    grpc: NotRequired[int]
    """The port of gRPC. Default: 8001."""
    metrics: NotRequired[int]
    """The port that Prometheus reads. Default: 8002."""


class TritonMetrics(TypedDict):
    """Metrics in addition to the counters of the server."""

    histogram_latencies: NotRequired[bool]
    """Adds histograms of latencies; for models that stream, the latency of the first response (Triton 24.12 and newer). Default: false."""
    summary_latencies: NotRequired[bool]
    """Adds quantiles of latencies. Default: false."""
    interval_ms: NotRequired[int]
    """Interval of the metrics of accelerators and CPU. Default: 2000."""


class VersionPolicy(TypedDict):
    """The versions of a model that are served, by exactly one of the fields. Default: the newest version."""

    latest: NotRequired[int]
    """Number of newest versions."""
    all: NotRequired[bool]
    """Every version. One of: True."""
    specific: NotRequired[list[int]]
    """These versions."""


class DynamicBatching(TypedDict):
    """Joins requests that arrive together into one execution."""

    preferred_batch_size: NotRequired[list[int]]
    """Batch sizes that Triton tries to reach. Default: maxBatchSize."""
    max_queue_delay_microseconds: NotRequired[int]
    """Time that a request may wait for others. Default: 0."""
    preserve_ordering: NotRequired[bool]
    """Answers requests in the order in which they arrive. Default: false."""
    priority_levels: NotRequired[int]
    """Number of priorities that requests can have; 1 is the highest. 0: none. Default: 0."""
    default_priority_level: NotRequired[int]
    """The priority of requests without one. Default: 0."""
    max_queue_size: NotRequired[int]
    """Maximum waiting requests; further ones are rejected. 0: unlimited. Default: 0."""
    default_timeout_microseconds: NotRequired[int]
    """Time that a request may wait before it is rejected. 0: unlimited. Default: 0."""


class DirectStrategy(TypedDict):
    """Each sequence has a batch slot of its own."""

    max_queue_delay_microseconds: NotRequired[int]
    """Time that a request may wait for others. Default: 0."""
    minimum_slot_utilization: NotRequired[float]
    """Share of the slots that must have a request before a batch runs without delay. Default: 0.0."""


class OldestStrategy(TypedDict):
    """Requests of several sequences form dynamic batches; the oldest sequences come first."""

    max_candidate_sequences: int
    """Sequences of each instance that run at the same time."""
    preferred_batch_size: NotRequired[list[int]]
    """Batch sizes that Triton tries to reach."""
    max_queue_delay_microseconds: NotRequired[int]
    """Time that a request may wait for others. Default: 0."""


class Control(TypedDict):
    """One signal that Triton sends to the model with each request."""

    kind: str
    """The meaning of the signal. One of: CONTROL_SEQUENCE_START, CONTROL_SEQUENCE_READY, CONTROL_SEQUENCE_END, CONTROL_SEQUENCE_CORRID."""
    int32_false_true: NotRequired[list[int]]
    """The values of an INT32 tensor for false and true."""
    fp32_false_true: NotRequired[list[float]]
    """The values of an FP32 tensor for false and true."""
    bool_false_true: NotRequired[list[bool]]
    """The values of a BOOL tensor for false and true."""
    data_type: NotRequired[str]
    """For CONTROL_SEQUENCE_CORRID: the type of the correlation id. One of: TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_BF16, TYPE_STRING."""


class ControlInput(TypedDict):
    """An input of the model that carries a signal."""

    name: str
    """A tensor's name: letters, digits, '_', '.', '-'."""
    control: list[Control]
    """One signal that Triton sends to the model with each request."""


class State(TypedDict):
    """A tensor that Triton keeps between the requests of a sequence."""

    input_name: str
    """A tensor's name: letters, digits, '_', '.', '-'."""
    output_name: str
    """A tensor's name: letters, digits, '_', '.', '-'."""
    data_type: str
    """The type of the elements. One of: TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_BF16, TYPE_STRING."""
    dims: list[int]
    """The shape without the batch axis."""


class SequenceBatching(TypedDict):
    """Sends all requests of a sequence to the same instance, for models with state."""

    direct: NotRequired[DirectStrategy]
    """Each sequence has a batch slot of its own."""
    oldest: NotRequired[OldestStrategy]
    """Requests of several sequences form dynamic batches; the oldest sequences come first."""
    max_sequence_idle_microseconds: NotRequired[int]
    """Time without a request after which a sequence ends. Default: 1000000."""
    control_input: NotRequired[list[ControlInput]]
    """Inputs that tell the model about the sequence."""
    state: NotRequired[list[State]]
    """Tensors that Triton keeps for each sequence."""


class RateLimiter(TypedDict):
    """The server's shared resources that one execution of the model uses; the server limits executions by them."""

    resources: NotRequired[dict[str, int]]
    """Amounts of an execution, by the name of the resource."""
    priority: NotRequired[int]
    """A model of priority 2 executes half as often as one of priority 1. Default: 0."""


class Warmup(TypedDict):
    """A request that the server sends to itself before the model is ready: random numbers, or zeros for text."""

    dims: dict[str, list[int]]
    """A fixed shape for each input."""
    batch_size: NotRequired[int]
    """0 for a model that does not batch. Default: 0."""
    count: NotRequired[int]
    """Number of times that it is sent. Default: 1."""


class InputTensor(TypedDict):
    """The type and shape of an input."""

    data_type: str
    """The type of its elements, as ModelConfig spells it. One of: TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_BF16, TYPE_STRING."""
    dims: list[int]
    """The shape without the batch axis, -1 for a size that varies; with maxBatchSize 0 the whole shape."""
    optional: NotRequired[bool]
    """True if a request may omit it. Default: false."""


class OutputTensor(TypedDict):
    """The type and shape of an output."""

    data_type: str
    """The type of its elements, as ModelConfig spells it. One of: TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_BF16, TYPE_STRING."""
    dims: list[int]
    """The shape without the batch axis, -1 for a size that varies; with maxBatchSize 0 the whole shape."""


class PythonModel(TypedDict):
    """A model of your own for Triton's python backend: a class TritonPythonModel, in code or in a file of the weights."""

    input: dict[str, InputTensor]
    """The type and shape of an input."""
    output: dict[str, OutputTensor]
    """The type and shape of an output."""
    max_batch_size: NotRequired[int]
    """Maximum requests in one execution. With 0 the model does not batch, and its dims are whole shapes. Default: 0."""
    version: NotRequired[int]
    """The number of the version that is written. Default: 1."""
    version_policy: NotRequired[VersionPolicy]
    """The versions of a model that are served, by exactly one of the fields. Default: the newest version."""
    instances: NotRequired[int]
    """Processes of this model in a replica. Default: one per accelerator, or one if the model uses none."""
    dynamic_batching: NotRequired[DynamicBatching]
    """Joins requests that arrive together into one execution."""
    sequence_batching: NotRequired[SequenceBatching]
    """Sends all requests of a sequence to the same instance, for models with state."""
    response_cache: NotRequired[bool]
    """Answers repeated requests from memory; requires responseCacheSize of the service. Triton 2.51 also caches failures, as empty answers. Default: false."""
    rate_limiter: NotRequired[RateLimiter]
    """The server's shared resources that one execution of the model uses; the server limits executions by them."""
    warmup: NotRequired[list[Warmup]]
    """A request that the server sends to itself before the model is ready: random numbers, or zeros for text."""
    parameters: NotRequired[dict[str, str]]
    """Further parameters of the model; never a secret."""
    code: NotRequired[str]
    """Code."""
    file: NotRequired[str]
    """The source file below the weights' directory. It is read when the server starts."""
    decoupled: NotRequired[bool]
    """True if a request may have any number of responses. Default: false."""
    device: NotRequired[str]
    """`accelerator` gives each instance an accelerator. One of: cpu, accelerator. Default: cpu."""


class TextGenerationModel(TypedDict):
    """Text generation that inferplan ships: text_input and sampling in, text_output out, whole or streamed.

If the model streams, a request enables it with the input `stream`."""

    max_batch_size: NotRequired[int]
    """Maximum requests in one execution. With 0 the model does not batch, and its dims are whole shapes. Default: 0."""
    version: NotRequired[int]
    """The number of the version that is written. Default: 1."""
    version_policy: NotRequired[VersionPolicy]
    """The versions of a model that are served, by exactly one of the fields. Default: the newest version."""
    instances: NotRequired[int]
    """Processes of this model in a replica. Default: one per accelerator, or one if the model uses none."""
    dynamic_batching: NotRequired[DynamicBatching]
    """Joins requests that arrive together into one execution."""
    sequence_batching: NotRequired[SequenceBatching]
    """Sends all requests of a sequence to the same instance, for models with state."""
    response_cache: NotRequired[bool]
    """Answers repeated requests from memory; requires responseCacheSize of the service. Triton 2.51 also caches failures, as empty answers. Default: false."""
    rate_limiter: NotRequired[RateLimiter]
    """The server's shared resources that one execution of the model uses; the server limits executions by them."""
    warmup: NotRequired[list[Warmup]]
    """A request that the server sends to itself before the model is ready: random numbers, or zeros for text."""
    parameters: NotRequired[dict[str, str]]
    """Further parameters of the model; never a secret."""
    streaming: NotRequired[bool]
    """Sends each piece of an answer immediately (a decoupled model), to at most `maxBatchSize` requests at a time. Default: false."""
    max_tokens: NotRequired[int]
    """New tokens of an answer, if the request sets none. Default: 256."""
    library: NotRequired[str]
    """The library that loads the weights, without a generator of your own. vLLM batches requests itself. Default: Hugging Face transformers. One of: transformers, vllm."""
    engine_args: NotRequired[dict[str, Any]]
    """With library: vllm, arguments of its engine as vLLM's AsyncEngineArgs spells them."""
    generator: NotRequired[str]
    """A class Generator of your own."""
    generator_file: NotRequired[str]
    """A class Generator of your own, in a file below the weights' directory."""


class VllmModel(TypedDict):
    """A model of Triton's vllm backend. vLLM batches and streams itself; a request enables streaming with the input `stream`."""

    version: NotRequired[int]
    """The number of the version that is written. Default: 1."""
    version_policy: NotRequired[VersionPolicy]
    """The versions of a model that are served, by exactly one of the fields. Default: the newest version."""
    tensor_parallel_size: NotRequired[int]
    """Accelerators that each layer is split over. Default: 1."""
    pipeline_parallel_size: NotRequired[int]
    """Stages of the layers, each on its own accelerators. Default: 1."""
    max_model_len: NotRequired[Any]
    """Context length in tokens. Default: the model's own. One of: auto."""
    max_num_seqs: NotRequired[int]
    """Maximum requests in one step of the engine. Default: vLLM decides."""
    max_num_batched_tokens: NotRequired[int]
    """Maximum tokens in one step of the engine, over all requests. Default: vLLM decides."""
    gpu_memory_utilization: NotRequired[float]
    """Share of the device memory that vLLM may use; vLLM's default is 0.92 (0.33.0)."""
    dtype: NotRequired[str]
    """The data type of weights. Default: bfloat16 on Gaudi, half on accelerators without bfloat16, vLLM's choice elsewhere. One of: auto, bfloat16, float, float16, float32, half."""
    quantization: NotRequired[str]
    """The quantization of the weights as vLLM names it (fp8, awq, ...). Default: the checkpoint's."""
    kv_cache_dtype: NotRequired[str]
    """The data type of the KV cache as vLLM names it (fp8, ...). Default: the model's own."""
    block_size: NotRequired[int]
    """Tokens in a block of the KV cache. Default: 128 on Gaudi, vLLM's choice elsewhere."""
    enable_prefix_caching: NotRequired[bool]
    """Reuses the KV cache for prompts with the same beginning. Default: vLLM decides."""
    lora_adapters: NotRequired[dict[str, str]]
    """LoRA adapters by name, each a directory below that of the weights."""
    max_lora_rank: NotRequired[int]
    """The largest rank of an adapter; vLLM's default is 16. One of: 1, 8, 16, 32, 64, 128, 256, 320, 512."""
    max_loras: NotRequired[int]
    """Adapters in one batch; vLLM's default is 1."""
    engine_args: NotRequired[dict[str, Any]]
    """Further engine arguments as vLLM's AsyncEngineArgs spells them. Arguments that a field sets are rejected."""
    report_metrics: NotRequired[bool]
    """Adds vLLM's metrics to Triton's. vLLM's front end then runs in the engine's process, which reduces throughput. Default: false."""
    health_check: NotRequired[bool]
    """Counts the model as ready only while vLLM's engine passes its own check (beta). Default: false."""


class EnsembleStep(TypedDict):
    """One step of an ensemble: a model, and the ensemble's tensors that its own tensors are mapped to."""

    model_name: str
    """A model's name in the repository, and in its URLs: letters, digits, '_', '-', '.'."""
    input_map: dict[str, str]
    """The model's inputs, and the ensemble's tensors that they read."""
    output_map: dict[str, str]
    """The model's outputs, and the ensemble's tensors that they write."""
    model_version: NotRequired[int]
    """Default: the newest version that is served."""


class EnsembleModel(TypedDict):
    """A graph of models that is called as one."""

    input: dict[str, InputTensor]
    """The type and shape of an input."""
    output: dict[str, OutputTensor]
    """The type and shape of an output."""
    steps: list[EnsembleStep]
    """One step of an ensemble: a model, and the ensemble's tensors that its own tensors are mapped to."""
    max_batch_size: NotRequired[int]
    """Maximum requests in one execution. With 0 the model does not batch, and its dims are whole shapes. Default: 0."""
    version: NotRequired[int]
    """The number of the version that is written. Default: 1."""
    version_policy: NotRequired[VersionPolicy]
    """The versions of a model that are served, by exactly one of the fields. Default: the newest version."""


class FileModel(TypedDict):
    """A model in one file, with further files in the same directory: ONNX, a TensorRT plan, PyTorch, OpenVINO, or a forest for FIL."""

    input: dict[str, InputTensor]
    """Inputs by name."""
    output: dict[str, OutputTensor]
    """Outputs by name."""
    kind: str
    """The format of the file, which decides the backend. One of: onnx, tensorrt, pytorch, openvino, fil."""
    file: str
    """A path inside a store: names joined by single slashes."""
    max_batch_size: NotRequired[int]
    """Maximum requests in one execution. With 0 the model does not batch, and its dims are whole shapes. Default: 0."""
    version: NotRequired[int]
    """The number of the version that is written. Default: 1."""
    version_policy: NotRequired[VersionPolicy]
    """The versions of a model that are served, by exactly one of the fields. Default: the newest version."""
    instances: NotRequired[int]
    """Processes of this model in a replica. Default: one per accelerator, or one if the model uses none."""
    dynamic_batching: NotRequired[DynamicBatching]
    """Joins requests that arrive together into one execution."""
    sequence_batching: NotRequired[SequenceBatching]
    """Sends all requests of a sequence to the same instance, for models with state."""
    response_cache: NotRequired[bool]
    """Answers repeated requests from memory; requires responseCacheSize of the service. Triton 2.51 also caches failures, as empty answers. Default: false."""
    rate_limiter: NotRequired[RateLimiter]
    """The server's shared resources that one execution of the model uses; the server limits executions by them."""
    warmup: NotRequired[list[Warmup]]
    """A request that the server sends to itself before the model is ready: random numbers, or zeros for text."""
    parameters: NotRequired[dict[str, str]]
    """Further parameters of the model; never a secret."""
    device: NotRequired[str]
    """`accelerator` gives each instance an accelerator. Default: accelerator, if the backend can use one. One of: cpu, accelerator."""


class CustomModel(TypedDict):
    """A model of a backend of your own, a C++ library of the image: /opt/tritonserver/backends/<backend>/libtriton_<backend>.so."""

    input: dict[str, InputTensor]
    """Inputs by name."""
    output: dict[str, OutputTensor]
    """Outputs by name."""
    backend_name: str
    """The name of the backend."""
    max_batch_size: NotRequired[int]
    """Maximum requests in one execution. With 0 the model does not batch, and its dims are whole shapes. Default: 0."""
    version: NotRequired[int]
    """The number of the version that is written. Default: 1."""
    version_policy: NotRequired[VersionPolicy]
    """The versions of a model that are served, by exactly one of the fields. Default: the newest version."""
    instances: NotRequired[int]
    """Processes of this model in a replica. Default: one per accelerator, or one if the model uses none."""
    dynamic_batching: NotRequired[DynamicBatching]
    """Joins requests that arrive together into one execution."""
    sequence_batching: NotRequired[SequenceBatching]
    """Sends all requests of a sequence to the same instance, for models with state."""
    response_cache: NotRequired[bool]
    """Answers repeated requests from memory; requires responseCacheSize of the service. Triton 2.51 also caches failures, as empty answers. Default: false."""
    rate_limiter: NotRequired[RateLimiter]
    """The server's shared resources that one execution of the model uses; the server limits executions by them."""
    warmup: NotRequired[list[Warmup]]
    """A request that the server sends to itself before the model is ready: random numbers, or zeros for text."""
    parameters: NotRequired[dict[str, str]]
    """Further parameters of the model; never a secret."""
    device: NotRequired[str]
    """`accelerator` gives each instance an accelerator. Default: accelerator, if the backend can use one. One of: cpu, accelerator."""
    file: NotRequired[str]
    """A file below the weights' directory, if the backend reads one."""


class ExistingRepository(TypedDict):
    """A directory of a store with one directory for each model, as Triton reads it: config.pbtxt, and versions with their files."""

    store: str
    """The name of a store in storage."""
    path: str
    """A path inside a store: names joined by single slashes."""
    models: list[str]
    """The models that clients may call. The server loads all models of the directory."""
    revision: NotRequired[str]
    """The version of the files. Each revision is copied to its own directory. Without a revision, raise preheat.round to copy again."""
    files: NotRequired[dict[str, str]]
    """The files in a store of kind http, each with its sha256 or null. Default: the files in SHA256SUMS, or those on the index pages."""
    size: NotRequired[str]
    """Total size of the files, used to check deadlines, accelerator memory and capacity."""


class TritonServiceArgs(TypedDict):
    """The inputs of TritonService."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    pool: pulumi.Input[Pool]
    """The nodes that replicas run on: the `pool` of a NodePool."""
    server_key_mark: pulumi.Input[str]
    """The entry of this model in `server_key_marks` of ApiKeys, which makes the Secret with the server's key."""
    repository: Any
    """The repository's models by name, or an existing repository: its directory in a store, and the names of its models."""
    weights: NotRequired[pulumi.Input[ModelFiles]]
    """The files of the model: the `files` of a Preheat, or a directory of a store."""
    artifacts: NotRequired[dict[str, pulumi.Input[ModelFiles]]]
    """Further files by name, mounted at /artifacts/<name>: the `files` of a Preheat each."""
    prometheus: NotRequired[str]
    """The URL of the Prometheus that scalers query. Required with autoscaling."""
    accelerators_of_others: NotRequired[int]
    """Accelerators of the pool that other models request, to check a rollout. Default: 0."""
    env: NotRequired[dict[str, str]]
    """Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    secret_env: NotRequired[dict[str, SecretKey]]
    """Next to `env`: Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    egress: NotRequired[Egress]
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default: none."""
    labels: NotRequired[dict[str, str]]
    """Further labels on the pods."""
    annotations: NotRequired[dict[str, str]]
    """Further annotations on the pods."""
    image_pull_secrets: NotRequired[list[PullSecret]]
    """Secrets that open the private registry of the image, in addition to the stack's."""
    priority_class_name: NotRequired[str]
    """The PriorityClass of the pods, which must exist."""
    scratch: NotRequired[str]
    """The directory of the pods' own volumes for temporary files and caches. Default: /tmp and /cache, where they hide files of the image."""
    scheduler_name: NotRequired[str]
    """The scheduler of the pods. Default: the cluster's default scheduler."""
    tolerations: NotRequired[list[Toleration]]
    """Further tolerations. The taints of the pool are tolerated without them."""
    volumes: NotRequired[dict[str, ExtraVolume]]
    """Further volumes by name, from existing claims and ConfigMaps."""
    replicas: NotRequired[int]
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods. Default: 1."""
    autoscaling: NotRequired[Scaling]
    """Instead of `replicas`: Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods."""
    accelerators: NotRequired[int]
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    affinity: NotRequired[Affinity]
    """Further terms on the nodes of pods, in addition to the pool's."""
    rollout: NotRequired[str]
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the successor first and needs free accelerators. Default: inPlace."""
    resources: NotRequired[ModelResources]
    """The requests of one replica, except accelerators. Default: its share of the node, in proportion to its accelerators."""
    shared_memory: NotRequired[str]
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11). Default: 2Gi."""
    load_mib_per_second: NotRequired[int]
    """The lowest rate of reading weights. With their size, it sets the startup budget. Default: 200."""
    warmup_seconds: NotRequired[int]
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: NotRequired[int]
    """Seconds that a terminating server has to finish running requests. Default: 60."""
    image: NotRequired[str]
    """Default: the accelerator table's image for this engine, on CPUs that of its build for CPUs."""
    traffic: NotRequired[Traffic]
    """The requests to plan for. Plans and reports then show speed, capacity and the price of a million tokens (docs/prediction.md)."""
    slo: NotRequired[Slo]
    """The objective. With `traffic`, a change that misses it is a risk of the report; with `monitoring.rules`, alerts watch it."""
    consumers: NotRequired[list[str]]
    """Consumers whose keys open this model. Default: none."""
    ports: NotRequired[TritonPorts]
    """The ports of the server. Default: Triton's own."""
    metrics: NotRequired[TritonMetrics]
    """Metrics in addition to the counters of the server."""
    model_load_thread_count: NotRequired[int]
    """Threads that load models in parallel; 4 is Triton's own default."""
    trust_remote_code: NotRequired[RemoteCode]
    """Lets the server run Python files of the model, after a review of one revision. The policy pack blocks it until a reviewer adds an exemption. One of: False. Default: false."""
    frontend: NotRequired[str]
    """`openai` serves OpenAI's API instead of KServe's protocols, by Triton's own frontend, and requires kind vllm of every model. One of: kserve, openai. Default: kserve."""
    response_cache_size: NotRequired[str]
    """Memory for answers of models with responseCache. Default: none."""


class EngineBuild(TypedDict):
    """A build of engines from the weights by convert_checkpoint.py and trtllm-build of the model's own image, once for each change."""

    model_family: str
    """The directory among TensorRT-LLM's examples that holds the model's convert_checkpoint.py: llama, qwen, gemma, phi, ..."""
    max_input_len: NotRequired[int]
    """Maximum tokens of a prompt. Default: trtllm-build decides."""
    convert_args: NotRequired[list[str]]
    """Further options of convert_checkpoint.py, such as --use_fp8. Options that a field sets are rejected."""
    build_args: NotRequired[list[str]]
    """Further options of trtllm-build, such as --gemm_plugin=auto. Options that a field sets are rejected."""
    accelerators: NotRequired[int]
    """Accelerators that the Job requests; engines of a parallel model are built on them in turn. The Job waits while the pool is full. Default: 1."""
    timeout_seconds: NotRequired[int]
    """Seconds after which a build fails. Default: 7200."""
    round: NotRequired[int]
    """Increase it to build again, into a new directory. Default: 0."""


class TensorrtLlmServiceArgs(TypedDict):
    """The inputs of TensorrtLlmService."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    pool: pulumi.Input[Pool]
    """The nodes that replicas run on: the `pool` of a NodePool."""
    weights: pulumi.Input[ModelFiles]
    """The files of the model: the `files` of a Preheat, or a directory of a store."""
    server_key_mark: pulumi.Input[str]
    """The entry of this model in `server_key_marks` of ApiKeys, which makes the Secret with the server's key."""
    artifacts: NotRequired[dict[str, pulumi.Input[ModelFiles]]]
    """Further files by name, mounted at /artifacts/<name>: the `files` of a Preheat each."""
    prometheus: NotRequired[str]
    """The URL of the Prometheus that scalers query. Required with autoscaling."""
    accelerators_of_others: NotRequired[int]
    """Accelerators of the pool that other models request, to check a rollout. Default: 0."""
    env: NotRequired[dict[str, str]]
    """Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    secret_env: NotRequired[dict[str, SecretKey]]
    """Next to `env`: Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    egress: NotRequired[Egress]
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default: none."""
    labels: NotRequired[dict[str, str]]
    """Further labels on the pods."""
    annotations: NotRequired[dict[str, str]]
    """Further annotations on the pods."""
    image_pull_secrets: NotRequired[list[PullSecret]]
    """Secrets that open the private registry of the image, in addition to the stack's."""
    priority_class_name: NotRequired[str]
    """The PriorityClass of the pods, which must exist."""
    scratch: NotRequired[str]
    """The directory of the pods' own volumes for temporary files and caches. Default: /tmp and /cache, where they hide files of the image."""
    scheduler_name: NotRequired[str]
    """The scheduler of the pods. Default: the cluster's default scheduler."""
    tolerations: NotRequired[list[Toleration]]
    """Further tolerations. The taints of the pool are tolerated without them."""
    volumes: NotRequired[dict[str, ExtraVolume]]
    """Further volumes by name, from existing claims and ConfigMaps."""
    replicas: NotRequired[int]
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods. Default: 1."""
    autoscaling: NotRequired[Scaling]
    """Instead of `replicas`: Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods."""
    accelerators: NotRequired[int]
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    affinity: NotRequired[Affinity]
    """Further terms on the nodes of pods, in addition to the pool's."""
    rollout: NotRequired[str]
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the successor first and needs free accelerators. Default: inPlace."""
    resources: NotRequired[ModelResources]
    """The requests of one replica, except accelerators. Default: its share of the node, in proportion to its accelerators."""
    shared_memory: NotRequired[str]
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11). Default: 2Gi."""
    load_mib_per_second: NotRequired[int]
    """The lowest rate of reading weights. With their size, it sets the startup budget. Default: 200."""
    warmup_seconds: NotRequired[int]
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: NotRequired[int]
    """Seconds that a terminating server has to finish running requests. Default: 60."""
    image: NotRequired[str]
    """Default: the accelerator table's image for this engine, on CPUs that of its build for CPUs."""
    traffic: NotRequired[Traffic]
    """The requests to plan for. Plans and reports then show speed, capacity and the price of a million tokens (docs/prediction.md)."""
    slo: NotRequired[Slo]
    """The objective. With `traffic`, a change that misses it is a risk of the report; with `monitoring.rules`, alerts watch it."""
    consumers: NotRequired[list[str]]
    """Consumers whose keys open this model. Default: none."""
    ports: NotRequired[TritonPorts]
    """The ports of the server. Default: Triton's own."""
    metrics: NotRequired[TritonMetrics]
    """Metrics in addition to the counters of the server."""
    model_load_thread_count: NotRequired[int]
    """Threads that load models in parallel; 4 is Triton's own default."""
    tensor_parallel_size: NotRequired[int]
    """Accelerators that each layer is split over. Default: 1."""
    pipeline_parallel_size: NotRequired[int]
    """Stages of the layers, each on its own accelerators. Default: 1."""
    max_batch_size: NotRequired[int]
    """Maximum requests in one batch. Default: 64."""
    max_seq_len: NotRequired[int]
    """Maximum tokens of a prompt and its answer together. Default: the model's own limit."""
    max_num_tokens: NotRequired[int]
    """Maximum tokens in one step of the engine, over all requests; TensorRT-LLM's default is 8192."""
    dtype: NotRequired[str]
    """The data type of computations; auto is the checkpoint's own. One of: auto, bfloat16, float16, float32. Default: auto."""
    kv_cache_free_gpu_mem_fraction: NotRequired[float]
    """Share of the memory left after loading that the KV cache takes; TensorRT-LLM's default is 0.9."""
    streaming: NotRequired[bool]
    """With build: streams answers (a decoupled model). A request enables it with the input `stream`. Default: true."""
    max_tokens: NotRequired[int]
    """With build: maximum new tokens of an answer, if the request sets none. Default: 256."""
    llm_args: NotRequired[dict[str, Any]]
    """Without build: further arguments of tensorrt_llm.LLM, as it spells them. Arguments that a field sets are rejected."""
    build: NotRequired[EngineBuild]
    """Builds engines beforehand and serves them by Triton's tensorrtllm backend, as an ensemble and as a BLS model. Images before TensorRT-LLM 1.3 only."""
    engine_dir: NotRequired[str]
    """The artifact that holds existing engines, one for each rank. They are served like those of build. Images before TensorRT-LLM 1.3 only."""
    preprocessing_instance_count: NotRequired[int]
    """With build: instances of the model that turns prompts into tokens. Default: 1."""
    postprocessing_instance_count: NotRequired[int]
    """With build: instances of the model that turns tokens into text. Default: 1."""
    max_queue_delay_microseconds: NotRequired[int]
    """With build: time that a request may wait for others. Default: 0."""
    max_queue_size: NotRequired[int]
    """With build: maximum waiting requests; the server rejects further ones. 0 means unlimited. Default: 0."""
    parameters: NotRequired[dict[str, str]]
    """With build: further parameters of the tensorrtllm backend, as its template spells them, such as enable_kv_cache_reuse."""


class PyTritonServiceArgs(TypedDict):
    """The inputs of PyTritonService."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    pool: pulumi.Input[Pool]
    """The nodes that replicas run on: the `pool` of a NodePool."""
    server_key_mark: pulumi.Input[str]
    """The entry of this model in `server_key_marks` of ApiKeys, which makes the Secret with the server's key."""
    weights: NotRequired[pulumi.Input[ModelFiles]]
    """The files of the model: the `files` of a Preheat, or a directory of a store."""
    artifacts: NotRequired[dict[str, pulumi.Input[ModelFiles]]]
    """Further files by name, mounted at /artifacts/<name>: the `files` of a Preheat each."""
    prometheus: NotRequired[str]
    """The URL of the Prometheus that scalers query. Required with autoscaling."""
    accelerators_of_others: NotRequired[int]
    """Accelerators of the pool that other models request, to check a rollout. Default: 0."""
    env: NotRequired[dict[str, str]]
    """Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    secret_env: NotRequired[dict[str, SecretKey]]
    """Next to `env`: Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    egress: NotRequired[Egress]
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default: none."""
    labels: NotRequired[dict[str, str]]
    """Further labels on the pods."""
    annotations: NotRequired[dict[str, str]]
    """Further annotations on the pods."""
    image_pull_secrets: NotRequired[list[PullSecret]]
    """Secrets that open the private registry of the image, in addition to the stack's."""
    priority_class_name: NotRequired[str]
    """The PriorityClass of the pods, which must exist."""
    scratch: NotRequired[str]
    """The directory of the pods' own volumes for temporary files and caches. Default: /tmp and /cache, where they hide files of the image."""
    scheduler_name: NotRequired[str]
    """The scheduler of the pods. Default: the cluster's default scheduler."""
    tolerations: NotRequired[list[Toleration]]
    """Further tolerations. The taints of the pool are tolerated without them."""
    volumes: NotRequired[dict[str, ExtraVolume]]
    """Further volumes by name, from existing claims and ConfigMaps."""
    replicas: NotRequired[int]
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods. Default: 1."""
    autoscaling: NotRequired[Scaling]
    """Instead of `replicas`: Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods."""
    accelerators: NotRequired[int]
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    affinity: NotRequired[Affinity]
    """Further terms on the nodes of pods, in addition to the pool's."""
    rollout: NotRequired[str]
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the successor first and needs free accelerators. Default: inPlace."""
    resources: NotRequired[ModelResources]
    """The requests of one replica, except accelerators. Default: its share of the node, in proportion to its accelerators."""
    shared_memory: NotRequired[str]
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11). Default: 2Gi."""
    load_mib_per_second: NotRequired[int]
    """The lowest rate of reading weights. With their size, it sets the startup budget. Default: 200."""
    warmup_seconds: NotRequired[int]
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: NotRequired[int]
    """Seconds that a terminating server has to finish running requests. Default: 60."""
    image: NotRequired[str]
    """Default: the accelerator table's image for this engine, on CPUs that of its build for CPUs."""
    traffic: NotRequired[Traffic]
    """The requests to plan for. Plans and reports then show speed, capacity and the price of a million tokens (docs/prediction.md)."""
    slo: NotRequired[Slo]
    """The objective. With `traffic`, a change that misses it is a risk of the report; with `monitoring.rules`, alerts watch it."""
    consumers: NotRequired[list[str]]
    """Consumers whose keys open this model. Default: none."""
    streaming: NotRequired[bool]
    """Sends each piece of an answer immediately (a decoupled model), to at most `maxBatchSize` requests at a time. Default: false."""
    max_tokens: NotRequired[int]
    """New tokens of an answer, if the request sets none. Default: 256."""
    library: NotRequired[str]
    """The library that loads the weights, without a generator of your own. vLLM batches requests itself. Default: Hugging Face transformers. One of: transformers, vllm."""
    engine_args: NotRequired[dict[str, Any]]
    """With library: vllm, arguments of its engine as vLLM's AsyncEngineArgs spells them."""
    generator: NotRequired[str]
    """A class Generator of your own."""
    generator_file: NotRequired[str]
    """A class Generator of your own, in a file below the weights' directory."""
    model_name: NotRequired[str]
    """A model's name in the repository, and in its URLs: letters, digits, '_', '-', '.'. Default: text_generation."""
    script: NotRequired[str]
    """A bind script of your own. It gets `PYTRITON_TRITON_CONFIG_*` variables for `TritonConfig.from_env()`, and the key in SERVER_KEY."""
    script_file: NotRequired[str]
    """A bind script of your own in a file below the weights' directory, or in the image if the path starts with a slash."""
    max_batch_size: NotRequired[int]
    """Maximum prompts in one call of the bound function; with streaming, maximum answers at a time. Default: 4."""
    parameters: NotRequired[dict[str, str]]
    """Further parameters, never a secret. A generator gets them with its settings, a script of your own as JSON in `PARAMETERS`."""
    input: NotRequired[dict[str, InputTensor]]
    """The inputs that your own script binds, without the batch axis. `snippet`, `call` and the benchmark read them."""
    output: NotRequired[dict[str, OutputTensor]]
    """The outputs that your own script binds."""
    dynamic_batching: NotRequired[DynamicBatching]
    """Joins requests that arrive together into one execution."""
    ports: NotRequired[TritonPorts]
    """The ports of the server. Default: Triton's own."""


class ServeAutoscaling(TypedDict):
    """Scaling of the replicas of one deployment by Serve, inside the existing workers."""

    max_replicas: int
    """Maximum number of replicas."""
    min_replicas: NotRequired[int]
    """Minimum number of replicas. Default: 1."""
    initial_replicas: NotRequired[int]
    """Replicas at the start. Default: minReplicas."""
    target_ongoing_requests: NotRequired[float]
    """Target of running requests at each replica. Default: 2."""
    upscale_delay_seconds: NotRequired[float]
    """Time of high load before replicas are added. Default: Ray decides."""
    downscale_delay_seconds: NotRequired[float]
    """Time of low load before replicas are removed. Default: Ray decides."""


class ServeDeployment(TypedDict):
    """Settings of one deployment of an application, which override those of its code."""

    num_replicas: NotRequired[Any]
    """Replicas, or auto for Ray's own scaling. Default: the code's."""
    autoscaling: NotRequired[ServeAutoscaling]
    """Scaling of the replicas of one deployment by Serve, inside the existing workers."""
    max_ongoing_requests: NotRequired[int]
    """Maximum running requests at one replica. Default: the code's."""
    max_queued_requests: NotRequired[int]
    """Maximum waiting requests at each caller; further ones are rejected. Default: unlimited."""
    cpus: NotRequired[float]
    """CPU that Ray counts for each replica. Default: the code's."""
    accelerators: NotRequired[float]
    """Accelerators of each replica; a fraction shares an accelerator."""
    user_config: NotRequired[dict[str, Any]]
    """The argument of the deployment's `reconfigure`. A change restarts no replica."""
    max_replicas_per_node: NotRequired[int]
    """Maximum replicas on one worker pod."""
    health_check_period_seconds: NotRequired[float]
    """Interval of health checks of each replica. Default: Ray decides."""
    health_check_timeout_seconds: NotRequired[float]
    """Timeout of a health check. Default: Ray decides."""
    graceful_shutdown_timeout_seconds: NotRequired[float]
    """Time that a stopping replica has to finish running requests. Default: Ray decides."""


class CustomApplication(TypedDict):
    """An application of your own."""

    import_path: str
    """A module and its attribute that is the application (module:attribute)."""
    route_prefix: NotRequired[str]
    """The path of the application, for example / or /chat. Default: /."""
    env: NotRequired[dict[str, str]]
    """Variables of the application's own processes in plain text; never a secret."""
    pip: NotRequired[list[str]]
    """Packages that Ray installs before the application starts, each with its exact version."""
    working_dir: NotRequired[str]
    """The URL of a .zip archive with the code (https:// or s3://). Default: the code is part of the image."""
    args: NotRequired[dict[str, Any]]
    """Arguments of the application's builder."""
    checkpoint_path: NotRequired[str]
    """A checkpoint below the weights' directory; the builder gets its path as `checkpoint_path`."""
    base_model: NotRequired[str]
    """The base model of a checkpoint or an adapter, below the weights' directory; the builder gets its path as `base_model`."""
    adapter: NotRequired[str]
    """An adapter below the weights' directory; the builder gets its path as `adapter`."""
    deployments: NotRequired[dict[str, ServeDeployment]]
    """Settings of one deployment of an application, which override those of its code."""
    methods: NotRequired[list[str]]
    """The HTTP methods that clients may call through the gateway."""
    web_socket: NotRequired[bool]
    """Lets clients open WebSockets through the gateway. Default: false."""
    headers: NotRequired[list[str]]
    """Request headers that the gateway forwards, in addition to Accept, Content-Type, Traceparent and the like."""


class LlmApplication(TypedDict):
    """Ray's own OpenAI-compatible application for the model of this service, with vLLM as its engine."""

    route_prefix: NotRequired[str]
    """The path of the application, for example / or /chat. Default: /."""
    env: NotRequired[dict[str, str]]
    """Variables of the application's own processes in plain text; never a secret."""
    pip: NotRequired[list[str]]
    """Packages that Ray installs before the application starts, each with its exact version."""
    tensor_parallel_size: NotRequired[int]
    """Accelerators that each layer is split over. Default: 1."""
    pipeline_parallel_size: NotRequired[int]
    """Stages of the layers, each on its own accelerators. Default: 1."""
    model_id: NotRequired[str]
    """The name that clients send as `model`. Default: the service's key in this file."""
    max_model_len: NotRequired[int]
    """Context length in tokens. Default: the model's own."""
    engine_kwargs: NotRequired[dict[str, Any]]
    """Further arguments of the engine, as vLLM spells them."""
    autoscaling: NotRequired[ServeAutoscaling]
    """Scaling of the replicas of one deployment by Serve, inside the existing workers."""


class WorkerAutoscaling(TypedDict):
    """Ray's own autoscaler of worker pods, between `replicas` and this."""

    max_replicas: int
    """Maximum number of worker pods."""
    idle_timeout_seconds: NotRequired[int]
    """Seconds that a worker is idle before it is removed. Default: 60."""


class GcsFaultTolerance(TypedDict):
    """Keeps the cluster's state in Redis, so that workers continue to serve while the head is replaced."""

    redis_address: str
    """host:port."""
    password_secret: NotRequired[str]
    """A Secret of the inference namespace with the key `password`."""


class HeadResources(TypedDict):
    """The requests of the head, which has no accelerator and serves no request."""

    cpu: NotRequired[str]
    """CPU of the head. Default: 2."""
    memory: NotRequired[str]
    """Memory of the head. Default: 8Gi."""


class RayServiceArgs(TypedDict):
    """The inputs of RayService."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    pool: pulumi.Input[Pool]
    """The nodes that replicas run on: the `pool` of a NodePool."""
    server_key_mark: pulumi.Input[str]
    """The entry of this model in `server_key_marks` of ApiKeys, which makes the Secret with the server's key."""
    ray_version: str
    """The version of Ray in the image."""
    applications: dict[str, Any]
    """Applications by name, each with a path of its own."""
    weights: NotRequired[pulumi.Input[ModelFiles]]
    """The files of the model: the `files` of a Preheat, or a directory of a store."""
    artifacts: NotRequired[dict[str, pulumi.Input[ModelFiles]]]
    """Further files by name, mounted at /artifacts/<name>: the `files` of a Preheat each."""
    prometheus: NotRequired[str]
    """The URL of the Prometheus that scalers query. Required with autoscaling."""
    accelerators_of_others: NotRequired[int]
    """Accelerators of the pool that other models request, to check a rollout. Default: 0."""
    env: NotRequired[dict[str, str]]
    """Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    secret_env: NotRequired[dict[str, SecretKey]]
    """Next to `env`: Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    egress: NotRequired[Egress]
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default: none."""
    labels: NotRequired[dict[str, str]]
    """Further labels on the pods."""
    annotations: NotRequired[dict[str, str]]
    """Further annotations on the pods."""
    image_pull_secrets: NotRequired[list[PullSecret]]
    """Secrets that open the private registry of the image, in addition to the stack's."""
    priority_class_name: NotRequired[str]
    """The PriorityClass of the pods, which must exist."""
    scratch: NotRequired[str]
    """The directory of the pods' own volumes for temporary files and caches. Default: /tmp and /cache, where they hide files of the image."""
    scheduler_name: NotRequired[str]
    """The scheduler of the pods. Default: the cluster's default scheduler."""
    tolerations: NotRequired[list[Toleration]]
    """Further tolerations. The taints of the pool are tolerated without them."""
    volumes: NotRequired[dict[str, ExtraVolume]]
    """Further volumes by name, from existing claims and ConfigMaps."""
    replicas: NotRequired[int]
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods. Default: 1."""
    autoscaling: NotRequired[Scaling]
    """Instead of `replicas`: Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods."""
    accelerators: NotRequired[int]
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    affinity: NotRequired[Affinity]
    """Further terms on the nodes of pods, in addition to the pool's."""
    rollout: NotRequired[str]
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the successor first and needs free accelerators. Default: inPlace."""
    resources: NotRequired[ModelResources]
    """The requests of one replica, except accelerators. Default: its share of the node, in proportion to its accelerators."""
    shared_memory: NotRequired[str]
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11). Default: 2Gi."""
    load_mib_per_second: NotRequired[int]
    """The lowest rate of reading weights. With their size, it sets the startup budget. Default: 200."""
    warmup_seconds: NotRequired[int]
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: NotRequired[int]
    """Seconds that a terminating server has to finish running requests. Default: 60."""
    image: NotRequired[str]
    """Default: the accelerator table's image for this engine, on CPUs that of its build for CPUs."""
    traffic: NotRequired[Traffic]
    """The requests to plan for. Plans and reports then show speed, capacity and the price of a million tokens (docs/prediction.md)."""
    slo: NotRequired[Slo]
    """The objective. With `traffic`, a change that misses it is a risk of the report; with `monitoring.rules`, alerts watch it."""
    consumers: NotRequired[list[str]]
    """Consumers whose keys open this model. Default: none."""
    worker_autoscaling: NotRequired[WorkerAutoscaling]
    """Ray's own autoscaler of worker pods, between `replicas` and this."""
    gcs_fault_tolerance: NotRequired[GcsFaultTolerance]
    """Keeps the cluster's state in Redis, so that workers continue to serve while the head is replaced."""
    head: NotRequired[HeadResources]
    """The requests of the head, which has no accelerator and serves no request."""
    upgrade_strategy: NotRequired[str]
    """Default: NewCluster if the pool has room for a second set of workers, else None: a second cluster would wait for accelerators indefinitely, so the old one has to be deleted first."""


class SglangServiceArgs(TypedDict):
    """The inputs of SglangService."""

    namespace: pulumi.Input[str]
    """The namespace of the models, such as the `name` of an InferenceNamespace."""
    pool: pulumi.Input[Pool]
    """The nodes that replicas run on: the `pool` of a NodePool."""
    weights: pulumi.Input[ModelFiles]
    """The files of the model: the `files` of a Preheat, or a directory of a store."""
    server_key_mark: pulumi.Input[str]
    """The entry of this model in `server_key_marks` of ApiKeys, which makes the Secret with the server's key."""
    artifacts: NotRequired[dict[str, pulumi.Input[ModelFiles]]]
    """Further files by name, mounted at /artifacts/<name>: the `files` of a Preheat each."""
    prometheus: NotRequired[str]
    """The URL of the Prometheus that scalers query. Required with autoscaling."""
    accelerators_of_others: NotRequired[int]
    """Accelerators of the pool that other models request, to check a rollout. Default: 0."""
    env: NotRequired[dict[str, str]]
    """Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    secret_env: NotRequired[dict[str, SecretKey]]
    """Next to `env`: Further environment variables: text, or `{secretName, key}` for a value of a Secret."""
    egress: NotRequired[Egress]
    """Outgoing traffic of the model's pods, in addition to DNS and the model's store. Default: none."""
    labels: NotRequired[dict[str, str]]
    """Further labels on the pods."""
    annotations: NotRequired[dict[str, str]]
    """Further annotations on the pods."""
    image_pull_secrets: NotRequired[list[PullSecret]]
    """Secrets that open the private registry of the image, in addition to the stack's."""
    priority_class_name: NotRequired[str]
    """The PriorityClass of the pods, which must exist."""
    scratch: NotRequired[str]
    """The directory of the pods' own volumes for temporary files and caches. Default: /tmp and /cache, where they hide files of the image."""
    scheduler_name: NotRequired[str]
    """The scheduler of the pods. Default: the cluster's default scheduler."""
    tolerations: NotRequired[list[Toleration]]
    """Further tolerations. The taints of the pool are tolerated without them."""
    volumes: NotRequired[dict[str, ExtraVolume]]
    """Further volumes by name, from existing claims and ConfigMaps."""
    replicas: NotRequired[int]
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods. Default: 1."""
    autoscaling: NotRequired[Scaling]
    """Instead of `replicas`: Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods."""
    accelerators: NotRequired[int]
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    affinity: NotRequired[Affinity]
    """Further terms on the nodes of pods, in addition to the pool's."""
    rollout: NotRequired[str]
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the successor first and needs free accelerators. Default: inPlace."""
    resources: NotRequired[ModelResources]
    """The requests of one replica, except accelerators. Default: its share of the node, in proportion to its accelerators."""
    shared_memory: NotRequired[str]
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11). Default: 2Gi."""
    load_mib_per_second: NotRequired[int]
    """The lowest rate of reading weights. With their size, it sets the startup budget. Default: 200."""
    warmup_seconds: NotRequired[int]
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: NotRequired[int]
    """Seconds that a terminating server has to finish running requests. Default: 60."""
    image: NotRequired[str]
    """Default: the accelerator table's image for this engine, on CPUs that of its build for CPUs."""
    traffic: NotRequired[Traffic]
    """The requests to plan for. Plans and reports then show speed, capacity and the price of a million tokens (docs/prediction.md)."""
    slo: NotRequired[Slo]
    """The objective. With `traffic`, a change that misses it is a risk of the report; with `monitoring.rules`, alerts watch it."""
    consumers: NotRequired[list[str]]
    """Consumers whose keys open this model. Default: none."""
    trust_remote_code: NotRequired[RemoteCode]
    """Lets the server run Python files of the model, after a review of one revision. The policy pack blocks it until a reviewer adds an exemption. One of: False. Default: false."""
    tensor_parallel_size: NotRequired[int]
    """Accelerators that each layer is split over. Default: 1."""
    pipeline_parallel_size: NotRequired[int]
    """Stages of the layers, each on its own accelerators. Default: 1."""
    router: NotRequired[Router]
    """Sends prompts with the same beginning to the same replica, which has it in its cache. Default: the model's Service chooses a replica at random; a split model always has a router."""
    nnodes: NotRequired[int]
    """Nodes that one replica spans, with one pod per node. A LeaderWorkerSet keeps the pods together. Default: 1."""
    served_model_name: NotRequired[str]
    """The name that clients send as `model`. Default: the model's key in this file."""
    lora_consumers: NotRequired[dict[str, list[str]]]
    """Consumers of an adapter by its name, who need no right to the base model. Default: the consumers of the model. With it, the model and its adapters are called at /v1 only."""
    context_length: NotRequired[int]
    """Context length in tokens. Default: the model's own."""
    max_running_requests: NotRequired[int]
    """Maximum requests that run at once. Default: SGLang decides."""
    chunked_prefill_size: NotRequired[int]
    """Maximum tokens in a chunk of a prefill; -1 turns chunks off. Default: SGLang decides."""
    mem_fraction_static: NotRequired[float]
    """Share of the device memory for weights and KV cache. Default: SGLang decides."""
    dtype: NotRequired[str]
    """The data type of weights. Default: half on accelerators without bfloat16, SGLang's choice elsewhere. One of: auto, bfloat16, float, float16, float32, half."""
    quantization: NotRequired[str]
    """The quantization of the weights as SGLang names it (fp8, awq, ...). Default: the checkpoint's."""
    kv_cache_dtype: NotRequired[str]
    """The data type of the KV cache as SGLang names it (fp8_e5m2, ...). Default: the model's own."""
    disable_radix_cache: NotRequired[bool]
    """Turns off the reuse of the KV cache for prompts with the same beginning. Default: false."""
    lora_adapters: NotRequired[dict[str, str]]
    """LoRA adapters by name, each a directory below that of the weights."""
    max_lora_rank: NotRequired[int]
    """The largest rank of an adapter. Default: the largest rank of the adapters."""
    max_loras_per_batch: NotRequired[int]
    """Adapters in one batch; SGLang's default is 8."""
    extra_args: NotRequired[list[str]]
    """Further arguments as SGLang spells them. Arguments that a field sets are rejected."""
