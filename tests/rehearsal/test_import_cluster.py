"""An import of a live cluster: servers that people made by hand, read from a real API server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from inferplan.commands.import_stack.cluster import import_cluster
from inferplan.errors import RequestError
from inferplan.kube.api import Api
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

COMMIT = "a123456789b123456789c123456789d123456789"
NAMESPACE = "by-hand"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def deployment(name: str, image: str, *args: str, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "args": list(args)}
    container |= {"resources": {"limits": {"nvidia.com/gpu": more.pop("gpus", 1)}}}
    container |= more.pop("container", {})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "replicas": more.pop("replicas", 1),
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], **more},
            },
        },
    }


SERVERS = [
    deployment(
        "vllm",
        "vllm/vllm-openai:v0.11.0",
        "--model=org/chat",
        f"--revision={COMMIT}",
        "--tensor-parallel-size=2",
        gpus=2,
        replicas=2,
    ),
    deployment(
        "triton",
        "nvcr.io/nvidia/tritonserver:25.10-py3",
        "--model-repository=/models",
        "--model-control-mode=explicit",
        "--load-model=rank",
        container={
            "command": ["tritonserver"],
            "volumeMounts": [{"name": "models", "mountPath": "/models"}],
        },
        volumes=[{"name": "models", "persistentVolumeClaim": {"claimName": "triton"}}],
    ),
    deployment(
        "tgi",
        "ghcr.io/huggingface/text-generation-inference:3.3.4",
        "--model-id=org/text",
        f"--revision={COMMIT}",
        "--num-shard=4",
        gpus=4,
    ),
    deployment(
        "sglang",
        "lmsysorg/sglang:v0.5.4",
        "--model-path=org/moe",
        f"--revision={COMMIT}",
        "--tp",
        "8",
        "--context-length",
        "32768",
        gpus=8,
        container={"command": ["python3", "-m", "sglang.launch_server"]},
    ),
    deployment(
        "ray",
        "rayproject/ray-ml:2.55.0",
        "run",
        "app.search:app",
        container={"command": ["serve"]},
    ),
    deployment("dashboard", "grafana/grafana:12.0.0", container={"resources": {}}),
]


@pytest.fixture
def live(cluster, monkeypatch) -> Iterator[Api]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.directory / "kubeconfig"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    with contextlib.closing(cluster.api()) as api:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        api.apply(f"/api/v1/namespaces/{NAMESPACE}", space, manager="test")
        yield api
        for each in api.request("GET", DEPLOYMENTS)["items"]:
            api.request("DELETE", f"{DEPLOYMENTS}/{each['metadata']['name']}")


def context_of(cluster: Any) -> str:
    text = (cluster.directory / "kubeconfig").read_text()
    return yaml.safe_load(text)["current-context"]


def test_servers_made_by_hand_become_models_and_nothing_is_changed(cluster, live, tmp_path):
    for each in SERVERS:
        live.request("POST", DEPLOYMENTS, each)
    versions = [
        each["metadata"]["generation"] for each in live.request("GET", DEPLOYMENTS)["items"]
    ]
    result = import_cluster(context_of(cluster), accelerator="nvidia-h100")
    assert versions == [
        each["metadata"]["generation"] for each in live.request("GET", DEPLOYMENTS)["items"]
    ]
    (tmp_path / "Pulumi.imported.yaml").write_text(result.text)
    models: dict[str, Any] = dict(validate(read_stack(tmp_path / "Pulumi.imported.yaml")).models)
    by_path = {
        each.weights.path: each for each in models.values() if getattr(each, "weights", None)
    }
    chat = by_path["org/chat"]
    assert (chat.replicas, chat.tensor_parallel_size, chat.weights.revision) == (2, 2, COMMIT)
    text = by_path["org/text"]
    assert (text.engine, text.tensor_parallel_size, text.weights.revision) == ("vllm", 4, COMMIT)
    assert by_path["org/moe"].max_model_len == 32768
    assert by_path["org/moe"].tensor_parallel_size == 8
    assert list(models["triton"].repository.models) == ["rank"]
    assert models["ray"].applications["default"].import_path == "app.search:app"
    assert "dashboard" not in result.text + "".join(result.left)
    left = "\n".join(result.left)
    assert f"Deployment.{NAMESPACE}.vllm.yaml:" in left
    assert "terminationMessagePath" not in left
    engines = [each for each in result.shrinks if "is replaced: vLLM serves the model" in each]
    assert len(engines) == 2


@pytest.mark.usefixtures("live")
def test_a_cluster_without_servers_is_one_error(cluster):
    with pytest.raises(RequestError, match="no server that a stack can describe"):
        import_cluster(context_of(cluster), accelerator="nvidia-h100")
