"""One model on an existing cluster: Qwen 2.5 with vLLM on two nodes, behind a gateway with one key per consumer."""

import pulumi
from pulumi_kubernetes import Provider

from inferplan.components import ApiKeys, Consumer, Gateway, InferenceNamespace, ModelStore, NfsStore, NodePool, Preheat, VllmService

opts = pulumi.ResourceOptions(provider=Provider("cluster", context="gpu-rack", enable_secret_mutable=True))
consumers: dict[str, Consumer] = {"chat": {"keys": [1]}, "batch": {"keys": [1]}}
nfs: NfsStore = {"server": "nfs.acme.example", "path": "/models", "capacity": "2Ti"}
path, revision = "Qwen/Qwen2.5-7B-Instruct", "a09a35458c702b33eeacc393d103063234e8bc28"
seed = pulumi.Config().require_secret("seed")

pool = NodePool("l40s", {"accelerator": "nvidia-l40s", "nodes": 2}, opts).pool
name = InferenceNamespace("inference", {"pools": [pool]}, opts).name
hub = ModelStore("hub", {"namespace": name, "hub": {}}, opts).store
share = ModelStore("share", {"namespace": name, "nfs": nfs}, opts).store
preheat = Preheat("qwen", {"namespace": name, "source": hub, "target": share, "path": path, "revision": revision, "size": "16Gi"}, opts)
keys = ApiKeys("keys", {"namespace": name, "seed": seed, "consumers": consumers, "models": ["qwen"]}, opts)
mark, secret, fingerprint = keys.server_key_marks["qwen"], keys.gateway_secret, keys.gateway_fingerprint
model = VllmService("qwen", {"namespace": name, "pool": pool, "weights": preheat.files, "server_key_mark": mark, "replicas": 2,
    "max_model_len": 8192, "consumers": [*consumers]}, opts)  # fmt: skip
gateway = Gateway("gateway", {"namespace": name, "endpoints": [model.endpoint], "consumers": consumers, "keys_secret": secret,
    "keys_fingerprint": fingerprint, "exposure": "internal"}, opts)  # fmt: skip
pulumi.export("url", gateway.url)
