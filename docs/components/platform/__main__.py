"""A model on the cluster of a platform team, whose stack exports a kubeconfig and the seed of the
API keys.
"""

import pulumi
import pulumi_kubernetes as kubernetes

from inferplan.components import ApiKeys, InferenceNamespace, ModelStore, NodePool, VllmService


class Search(pulumi.ComponentResource):
    """A component of the team's own: the embeddings of its documents."""

    def __init__(self, name: str, platform: pulumi.StackReference) -> None:
        cluster = kubernetes.Provider(
            "platform", kubeconfig=platform.require_output("kubeconfig"), enable_secret_mutable=True
        )
        super().__init__("acme:search:Search", name, None, pulumi.ResourceOptions(provider=cluster))
        child = pulumi.ResourceOptions(parent=self)
        pool = NodePool(
            f"{name}-l4",
            {
                "accelerator": "nvidia-l4",
                "nodes": 1,
                "node_selector": {"acme.example/team": "search"},
            },
            child,
        ).pool
        namespace = InferenceNamespace(name, {"pools": [pool]}, child).name
        seed = platform.require_output("apiKeySeed")
        keys = ApiKeys(
            f"{name}-keys",
            {"namespace": namespace, "seed": seed, "consumers": {}, "models": ["bge-m3"]},
            child,
        )
        bucket = {"bucket": "acme-models", "region": "eu-central-1"}
        store = ModelStore(f"{name}-models", {"namespace": namespace, "s3": bucket}, child).store
        model = VllmService(
            "bge-m3",
            {
                "namespace": namespace,
                "pool": pool,
                "weights": {"store": store, "path": "BAAI/bge-m3", "size": "3Gi"},
                "server_key_mark": keys.server_key_marks["bge-m3"],
                "extra_args": ["--runner=pooling"],
            },
            child,
        )
        self.url = model.url
        self.register_outputs({"url": self.url})


pulumi.export(
    "url", Search("search", pulumi.StackReference(pulumi.Config().require("platform"))).url
)
