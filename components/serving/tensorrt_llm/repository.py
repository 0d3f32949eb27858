"""The files of a TensorRT-LLM repository: configurations as Triton's messages, and our python models.

Weights and engines are not part of it; they are mounted next to it. The same spec gives the same bytes.
"""

from __future__ import annotations

from typing import Any

from components.handles import NodeTarget
from components.serving.tensorrt_llm.models import EngineModel, models, payload
from components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from components.serving.triton import repository as triton
from components.serving.triton.ensemble import EnsembleModel
from components.serving.triton.messages import messages, text_of
from components.serving.triton.models import PythonModel

# Beside the models, and mounted elsewhere: Triton takes every directory of its repository for a model.
LAUNCH = "launch"
_EXECUTOR = "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker"


def repository_files(spec: TensorrtLlmSpec, *, weights: str, engines: str, target: NodeTarget) -> dict[str, str]:
    """The repository's files by path; `weights` and `engines` are directories inside the pod."""
    placed: dict[str, str] = {}
    for name, model in models(spec, weights=weights, engines=engines).items():
        match model:
            case EngineModel():
                made = _engine(name, model, spec)
                # The version directory must exist, and a ConfigMap carries files only.
                placed[f"{name}/{model.version}/engine.txt"] = "the engines are mounted beside the repository\n"
            case PythonModel() | EnsembleModel():
                made = triton.config(name, model, spec, weights=weights, target=target)
                sources = triton.sources_of(model, weights=weights, target=target)
                placed |= {f"{name}/{model.version}/{file}": text for file, text in sources.items()}
            case _:
                raise TypeError(f"{name} is a {type(model).__name__}, which no TensorRT-LLM repository holds")
        placed[f"{name}/config.pbtxt"] = text_of(made)
    if spec.has_ranks:
        placed[f"{LAUNCH}/ranks.py"] = payload("ranks.py")
    return dict(sorted(placed.items()))


def _engine(name: str, model: EngineModel, spec: TensorrtLlmSpec) -> Any:
    made = triton.base_config(name, model)
    made.backend = "tensorrtllm"
    made.model_transaction_policy.decoupled = model.decoupled
    for tensor in made.input:
        if list(tensor.dims) == [1]:
            tensor.reshape.SetInParent()
        elif tensor.name in ("input_ids", "stop_words_list", "bad_words_list"):
            tensor.allow_ragged_batch = True
    made.instance_group.add(kind=messages().ModelInstanceGroup.KIND_CPU, count=1)
    made.dynamic_batching.preferred_batch_size.append(model.max_batch_size)
    made.dynamic_batching.max_queue_delay_microseconds = spec.max_queue_delay_microseconds
    made.dynamic_batching.default_queue_policy.max_queue_size = spec.max_queue_size
    parameters = {
        "gpt_model_type": "inflight_fused_batching",
        "gpt_model_path": model.engines,
        "tokenizer_dir": model.tokenizer,
        "exclude_input_in_output": "true",
        "batch_scheduler_policy": "guaranteed_no_evict",
        "max_beam_width": "1",
        "executor_worker_path": _EXECUTOR,
        "FORCE_CPU_ONLY_INPUT_TENSORS": "no",
    }
    if spec.kv_cache_free_gpu_mem_fraction is not None:
        parameters["kv_cache_free_gpu_mem_fraction"] = str(spec.kv_cache_free_gpu_mem_fraction)
    for key, value in {**parameters, **spec.parameters}.items():
        made.parameters[key].string_value = value
    return made
