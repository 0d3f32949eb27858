"""Facts of models and pools as a stack states them, for forecasts."""

from __future__ import annotations

from typing import Any

import pytest

from inferplan.kube.facts import Subjects

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
POOL: dict[str, Any] = {
    "accelerator": "nvidia-l40s",
    "resource": "nvidia.com/gpu",
    "accelerators": 4,
    "machines": ["g6e.12xlarge"],
    "minNodes": 2,
    "maxNodes": 2,
}
BATCHING: dict[str, Any] = {
    "framework": "vllm",
    "tensorParallelSize": 1,
    "pipelineParallelSize": 1,
    "maxSequences": 256,
    "maxTokensPerStep": 2048,
    "memoryShare": 0.92,
    "image": "docker.io/vllm/vllm-openai:v0.24.0",
}
TRAFFIC: dict[str, Any] = {
    "requestsPerSecond": 6,
    "inputTokens": 1024,
    "outputTokens": 128,
    "model": LLAMA,
}


def model(**changes: Any) -> dict[str, Any]:
    """The facts of a model; a mapping among `changes` is merged into the fact of that name."""
    facts: dict[str, Any] = {
        "engine": "vllm",
        "pool": "gpus",
        "replicas": 1,
        "maxReplicas": 1,
        "accelerators": 1,
        "traffic": TRAFFIC,
        "batching": BATCHING,
        "weights": {"path": "models/llama"},
        "slo": {"ttft": "800ms", "itl": "40ms", "percentile": 95},
    }
    for name, value in changes.items():
        facts[name] = {**facts.get(name, {}), **value} if isinstance(value, dict) else value
    return facts


def stack(facts: dict[str, Any], **pool: Any) -> Subjects:
    return {("model", "chat"): facts, ("pool", "gpus"): {**POOL, **pool}}


def library() -> None:
    """Skip a module that asks the library, where only the base is installed."""
    pytest.importorskip(
        "aiconfigurator_core",
        reason="pip install --require-hashes -r requirements-predict.lock installs it",
    )
