"""A model behind `trtllm-serve`, TensorRT-LLM's own OpenAI-compatible server: the PyTorch backend reads the weights as they are.

Options and routes: tensorrt_llm/commands/serve.py and tensorrt_llm/serve/openai_server.py of NVIDIA/TensorRT-LLM, 1.2 (read 2026-11).
"""

from __future__ import annotations

import json

from components.handles import Endpoint, ModelMount
from components.serving import workload
from components.serving.engine import openai_endpoint
from components.serving.hardware import NO_DIRECT_COPIES
from components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from components.serving.tensorrt_llm.words import option_list
from components.serving.volumes import CACHE, FILES_VOLUME, MODELS, model_mounts, model_volumes, read_only_mount

PORT = 8000
SETTINGS = "/settings"
_FILE = "llm.yaml"


def server(name: str, spec: TensorrtLlmSpec, weights: ModelMount | None, *, image: str) -> workload.Server:
    """Return `trtllm-serve`. It gives the model the name of its directory, which is the model's own."""
    return workload.Server(
        image=image,
        command=["trtllm-serve", "serve"],
        args=serve_args(spec, model=f"{MODELS}/{name}"),
        ports={"http": PORT},
        ready_path="/health",
        live_path="/health",
        env=environment(spec),
        secret_env={},
        volumes=model_volumes(weights),
        mounts=[*model_mounts(f"{MODELS}/{name}", weights), read_only_mount(FILES_VOLUME, SETTINGS)],
        files={_FILE: settings(spec)},
    )


def endpoint(name: str, spec: TensorrtLlmSpec) -> Endpoint:
    # /metrics is a JSON list of iterations; return_perf_metrics adds the page for Prometheus. The server checks no key: the network
    # policy admits the gateway alone.
    return openai_endpoint(name, spec, port=PORT, served_names=[name], server_key=None, metrics_path="/prometheus/metrics")


def serve_args(spec: TensorrtLlmSpec, *, model: str) -> list[str]:
    """Return the arguments of `trtllm-serve serve`, in a fixed order."""
    values = {
        "--host": "0.0.0.0",  # noqa: S104 - the pod's own address; a NetworkPolicy protects it
        "--port": PORT,
        "--backend": "pytorch",
        "--tp_size": spec.tensor_parallel_size,
        "--pp_size": spec.pipeline_parallel_size,
        "--max_batch_size": spec.max_batch_size,
        "--max_seq_len": spec.max_seq_len,
        "--max_num_tokens": spec.max_num_tokens,
        # Every release has this name; --config is its newer name.
        "--extra_llm_api_options": f"{SETTINGS}/{_FILE}",
    }
    return [model, *option_list(values)]


def settings(spec: TensorrtLlmSpec) -> str:
    """Return the file of further arguments of tensorrt_llm.LLM. JSON is YAML, so it is written as such."""
    dtype = {} if spec.dtype == "auto" else {"dtype": spec.dtype}
    cache = {"kv_cache_config": spec.kv_cache} if spec.kv_cache else {}
    return json.dumps({"return_perf_metrics": True, **dtype, **spec.llm_args, **cache}, indent=2, sort_keys=True) + "\n"


def environment(spec: TensorrtLlmSpec) -> dict[str, str]:
    # Without a capability that the pod drops, ranks cannot read each other's memory directly.
    ranks = NO_DIRECT_COPIES if spec.world_size > 1 else {}
    return {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{CACHE}/huggingface", **ranks}
