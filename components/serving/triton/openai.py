"""Triton's own OpenAI frontend in front of models of its vllm backend: a Python process that runs the server inside itself.

Options, routes and restrictions: python/openai (main.py, api_restriction.py, README.md) of triton-inference-server/server, v2.71.0.
"""

from __future__ import annotations

from components.handles import Endpoint, SecretRef
from components.serving.engine import openai_endpoint
from components.serving.triton.spec import TritonSpec
from components.serving.triton.vllm_model import VllmModel

MAIN = "/opt/tritonserver/python/openai/openai_frontend/main.py"
SEPARATOR = "_lora_"
# The frontend's own default of 16 cuts every answer off.
_MAX_TOKENS = 256
# Metrics and health stay open: Prometheus and the kubelet carry no key.
_GUARDED = "inference,model-repository"


def frontend_args(spec: TritonSpec, *, repository: str, weights: str, header: str, key: str) -> list[str]:
    """The script and its arguments; every call but health and metrics carries `key` in `header`."""
    arguments = [
        MAIN,
        f"--model-repository={repository}",
        f"--tokenizer={weights}",
        "--backend=vllm",
        f"--openai-port={spec.ports.http}",
        f"--default-max-tokens={_MAX_TOKENS}",
    ]
    if any(isinstance(model, VllmModel) and model.adapter_names for model in spec.models.values()):
        arguments.append(f"--lora-separator={SEPARATOR}")
    return [*arguments, "--openai-restricted-api", _GUARDED, header, f"Bearer {key}"]


def endpoint(name: str, spec: TritonSpec, server_key: SecretRef) -> Endpoint:
    """What gateway, policies and status read about this server."""
    names = served_names(spec)
    return openai_endpoint(
        name, spec, engine="triton", port=spec.ports.http, served_names=names, server_key=server_key, health_path="/health/ready"
    )


def served_names(spec: TritonSpec) -> tuple[str, ...]:
    """The names that clients send as `model`: models, and each adapter after its model's name and the separator."""
    adapters = (
        f"{name}{SEPARATOR}{adapter}"
        for name, model in spec.models.items()
        if isinstance(model, VllmModel)
        for adapter in model.adapter_names
    )
    return (*spec.models, *adapters)
