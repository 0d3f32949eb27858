"""Made from the specifications by `inferplan schema --write`:  the public components."""

import pulumi

from inferplan.components.public.args import *


class ApiKeys(pulumi.ComponentResource):
    server_key_marks: pulumi.Output[dict[str, str]]
    gateway_secret: pulumi.Output[str]
    gateway_fingerprint: pulumi.Output[str]
    consumer_secrets: dict[str, str]
    def __init__(self, name: str, args: ApiKeysArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class Gateway(pulumi.ComponentResource):
    url: str
    def __init__(self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class InferenceNamespace(pulumi.ComponentResource):
    name: pulumi.Output[str]
    def __init__(self, name: str, args: InferenceNamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class ModelStore(pulumi.ComponentResource):
    store: Store
    def __init__(self, name: str, args: ModelStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class NodePool(pulumi.ComponentResource):
    pool: Pool
    node_selector: dict[str, str]
    total_accelerators: int
    def __init__(self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class Preheat(pulumi.ComponentResource):
    files: ModelFiles
    def __init__(self, name: str, args: PreheatArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class VllmService(pulumi.ComponentResource):
    endpoint: ModelEndpoint
    url: pulumi.Output[str]
    def __init__(self, name: str, args: VllmServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class TritonService(pulumi.ComponentResource):
    endpoint: ModelEndpoint
    url: pulumi.Output[str]
    def __init__(self, name: str, args: TritonServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class TensorrtLlmService(pulumi.ComponentResource):
    endpoint: ModelEndpoint
    url: pulumi.Output[str]
    def __init__(self, name: str, args: TensorrtLlmServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class PyTritonService(pulumi.ComponentResource):
    endpoint: ModelEndpoint
    url: pulumi.Output[str]
    def __init__(self, name: str, args: PyTritonServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class RayService(pulumi.ComponentResource):
    endpoint: ModelEndpoint
    url: pulumi.Output[str]
    def __init__(self, name: str, args: RayServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...

class SglangService(pulumi.ComponentResource):
    endpoint: ModelEndpoint
    url: pulumi.Output[str]
    def __init__(self, name: str, args: SglangServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...
