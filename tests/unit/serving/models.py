"""Models, pools and mounts that the serving tests start from; specs are built by validation only."""

from __future__ import annotations

from typing import Any

from inferplan.components.handles import NodeTarget, SecretRef
from inferplan.components.pools import SimulatedPool
from inferplan.components.serving.engine import Site
from inferplan.components.serving.spec import ModelSpec, engine_of
from inferplan.components.serving.vllm.spec import VllmSpec
from inferplan.components.sources import ModelMount, ObjectStore, VolumeClaim
from inferplan.pulumi_engine.recording import Recording
from tests.recorder import declare

KEY = SecretRef(name="chat-server-key", key="api-key")
MOUNT = ModelMount(claim=VolumeClaim(name="shared"), sub_path="llama/abc-r0")
BUCKET = ObjectStore(
    bucket="acme-weights",
    prefix="llm",
    endpoint="http://minio:9000",
    path_style=True,
    credentials="minio",
)
GATEWAY = {"app.kubernetes.io/component": "gateway", "app.kubernetes.io/instance": "gateway"}


def vllm(**fields: Any) -> VllmSpec:
    return VllmSpec.model_validate(
        {
            "engine": "vllm",
            "weights": {"store": "weights", "path": "llama", "size": "16Gi"},
            "pool": "p",
            **fields,
        }
    )


def pool(accelerator: str, **fields: Any) -> NodeTarget:
    return SimulatedPool.model_validate(
        {"provider": "simulated", "accelerator": accelerator, "nodes": 2, **fields}
    ).target("p")


L40S = pool("nvidia-l40s", machine="g6e.12xlarge")
GAUDI2 = pool("gaudi-2")


def site(
    *, target: NodeTarget = L40S, weights: ModelMount | ObjectStore | None = MOUNT, **more: Any
) -> Site:
    return Site(
        namespace="inference",
        target=target,
        weights=weights,
        server_key=KEY,
        gateway=GATEWAY,
        server_key_marks=more.pop("server_key_marks", {KEY: "0123456789abcdef"}),
        **more,
    )


def declared(spec: ModelSpec, **where: Any) -> Recording:
    return declare(lambda: engine_of(spec).serve("chat", spec, site(**where)))


def deployment_of(spec: ModelSpec, **where: Any) -> dict[str, Any]:
    return declared(spec, **where).one("kubernetes:apps/v1:Deployment").inputs["spec"]


def container_of(spec: ModelSpec, **where: Any) -> dict[str, Any]:
    [container] = deployment_of(spec, **where)["template"]["spec"]["containers"]
    return container
