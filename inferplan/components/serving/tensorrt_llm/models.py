"""The models of a TensorRT-LLM repository and its files, named as in NVIDIA's templates: the engine
with the steps around it.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.components.serving.triton import repository as triton
from inferplan.components.serving.triton.ensemble import EnsembleModel
from inferplan.components.serving.triton.messages import text_of
from inferplan.components.serving.triton.models import PythonModel, RepositoryModel
from inferplan.components.serving.triton.tensors import STREAM, InputTensor, OutputTensor
from inferplan.tables import table

ENGINE = "tensorrt_llm"
ENSEMBLE = "ensemble"
BLS = "tensorrt_llm_bls"
_TABLE = table("components/serving/tensorrt_llm/tensors.toml")
_TEXT, _TEXTS, _WORDS, _IDS, _INT, _BEAMS = (
    _TABLE["kinds"][name] for name in ("text", "texts", "words", "ids", "int", "beams")
)
_SAMPLING: dict[str, tuple[str, str]] = _TABLE["sampling"]
_TOKENIZER_INPUTS, _TOKENIZER_OUTPUTS = (
    {own: (other, _TABLE["kinds"][kind]) for own, (other, kind) in _TABLE[name].items()}
    for name in ("tokenizer_inputs", "tokenizer_outputs")
)
# Not in the repository's directory: Triton takes every directory of its repository for a model.
LAUNCH = "launch"
_EXECUTOR = "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker"


class EngineModel(RepositoryModel):
    """The engines of one model, run by the tensorrtllm backend: token ids in, token ids out."""

    decoupled: bool
    engines: str
    """The directory of the engines inside the pod."""
    tokenizer: str
    """The directory of the tokenizer inside the pod."""

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        """Inputs by name. Those of one value per request reach the engine without their axis."""
        optional = {
            "end_id": _INT,
            "pad_id": _INT,
            "stop_words_list": _WORDS,
            "bad_words_list": _WORDS,
        }
        sampling = {engine: _one(kind) for engine, kind in _SAMPLING.values()}
        tensors = {
            "input_ids": _IDS,
            "input_lengths": _INT,
            "request_output_len": _INT,
            **_optional(optional),
            **sampling,
            "stop": _one("TYPE_BOOL"),
        }
        return {name: InputTensor.model_validate(tensor) for name, tensor in tensors.items()}

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        return {
            "output_ids": OutputTensor.model_validate(_BEAMS),
            "sequence_length": OutputTensor.model_validate(_IDS),
        }

    @property
    def streams(self) -> bool:
        return self.decoupled


def models(
    spec: TensorrtLlmSpec, *, weights: str, engines: str
) -> dict[str, EngineModel | PythonModel | EnsembleModel]:
    """Return the repository's models by name; `weights` and `engines` are directories inside the
    pod.
    """
    return {
        "preprocessing": _preprocessing(spec, weights),
        ENGINE: EngineModel.model_validate(
            {
                "maxBatchSize": spec.max_batch_size,
                "decoupled": spec.streaming,
                "engines": engines,
                "tokenizer": weights,
            }
        ),
        "postprocessing": _postprocessing(spec, weights),
        ENSEMBLE: _ensemble(spec),
        BLS: _bls(spec),
    }


PUBLIC = (BLS, ENSEMBLE)
"""The models that clients call, the preferred one first."""


def payload(file: str) -> str:
    return (files("inferplan.components.serving.tensorrt_llm") / "payload" / file).read_text(
        encoding="utf-8"
    )


def _preprocessing(spec: TensorrtLlmSpec, weights: str) -> PythonModel:
    return _python(
        "preprocessing.py",
        maxBatchSize=spec.max_batch_size,
        instances=spec.preprocessing_instance_count,
        input={
            "QUERY": _TEXT,
            **_optional({own: tensor for own, (_, tensor) in _TOKENIZER_INPUTS.items()}),
        },
        output={own: tensor for own, (_, tensor) in _TOKENIZER_OUTPUTS.items()},
        parameters={"tokenizer_dir": weights, "max_tokens": str(spec.max_tokens)},
    )


def _postprocessing(spec: TensorrtLlmSpec, weights: str) -> PythonModel:
    return _python(
        "postprocessing.py",
        maxBatchSize=spec.max_batch_size,
        instances=spec.postprocessing_instance_count,
        input={"TOKENS_BATCH": _BEAMS, "SEQUENCE_LENGTH": _IDS},
        output={"OUTPUT": _TEXTS},
        parameters={"tokenizer_dir": weights},
    )


def _sampling(spec: TensorrtLlmSpec) -> dict[str, tuple[str, str]]:
    """Return the sampling inputs of clients; a model that does not stream has no input to request
    it.
    """
    return {name: row for name, row in _SAMPLING.items() if spec.streaming or name != STREAM}


def _text_inputs(spec: TensorrtLlmSpec) -> dict[str, Any]:
    sampling = {name: _one(kind) for name, (_, kind) in _sampling(spec).items()}
    return {"text_input": _TEXT, **_optional(dict(_TOKENIZER_INPUTS.values())), **sampling}


def _ensemble(spec: TensorrtLlmSpec) -> EnsembleModel:
    tokenize = {
        "QUERY": "text_input",
        **{own: name for own, (name, _) in _TOKENIZER_INPUTS.items()},
    }
    tokenized = {own: engine for own, (engine, _) in _TOKENIZER_OUTPUTS.items()}
    generated = {"output_ids": "TOKENS_BATCH", "sequence_length": "SEQUENCE_LENGTH"}
    steps = [
        {
            "modelName": "preprocessing",
            "inputMap": tokenize,
            "outputMap": {own: f"_{own}" for own in tokenized},
        },
        {
            "modelName": ENGINE,
            "inputMap": {
                **{engine: f"_{own}" for own, engine in tokenized.items()},
                **{own: name for name, (own, _) in _sampling(spec).items()},
            },
            "outputMap": {engine: f"_{own}" for engine, own in generated.items()},
        },
        {
            "modelName": "postprocessing",
            "inputMap": {own: f"_{own}" for own in generated.values()},
            "outputMap": {"OUTPUT": "text_output"},
        },
    ]
    tensors = {"input": _text_inputs(spec), "output": {"text_output": _TEXTS}}
    return EnsembleModel.model_validate(
        {"kind": "ensemble", "maxBatchSize": spec.max_batch_size, **tensors, "steps": steps}
    )


def _bls(spec: TensorrtLlmSpec) -> PythonModel:
    return _python(
        "bls.py",
        maxBatchSize=spec.max_batch_size,
        input=_text_inputs(spec),
        output={"text_output": _TEXT},
        decoupled=spec.streaming,
        parameters={"tensorrt_llm_model_name": ENGINE},
    )


def _python(file: str, **fields: Any) -> PythonModel:
    return PythonModel.model_validate({"kind": "python", "code": payload(file), **fields})


def _one(data_type: str) -> dict[str, Any]:
    return {"dataType": data_type, "dims": [1], "optional": True}


def _optional(tensors: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {**tensor, "optional": True} for name, tensor in tensors.items()}


def repository_files(
    spec: TensorrtLlmSpec, *, weights: str, engines: str, target: NodeTarget
) -> dict[str, str]:
    """Return the repository's files by path; `weights` and `engines` are directories inside the
    pod.
    """
    placed: dict[str, str] = {}
    for name, model in models(spec, weights=weights, engines=engines).items():
        if isinstance(model, EngineModel):
            # The version directory must exist, and a ConfigMap has files only.
            placed[f"{name}/{model.version}/engine.txt"] = (
                "the engines are mounted beside the repository\n"
            )
            placed[f"{name}/config.pbtxt"] = text_of(_engine(name, model, spec))
        else:
            placed |= triton.model_files(name, model, spec, weights=weights, target=target)
    if spec.has_ranks:
        placed[f"{LAUNCH}/ranks.py"] = payload("ranks.py")
    return dict(sorted(placed.items()))


def _engine(name: str, model: EngineModel, spec: TensorrtLlmSpec) -> dict[str, Any]:
    made = triton.base_config(name, model)
    for tensor in made["input"]:
        if tensor["dims"] == [1]:
            tensor["reshape"] = {}
        elif tensor["name"] in ("input_ids", "stop_words_list", "bad_words_list"):
            tensor["allowRaggedBatch"] = True
    share = spec.kv_cache_free_gpu_mem_fraction
    parameters = {
        "gpt_model_type": "inflight_fused_batching",
        "gpt_model_path": model.engines,
        "tokenizer_dir": model.tokenizer,
        "exclude_input_in_output": "true",
        "batch_scheduler_policy": "guaranteed_no_evict",
        "max_beam_width": "1",
        "executor_worker_path": _EXECUTOR,
        "FORCE_CPU_ONLY_INPUT_TENSORS": "no",
        **({} if share is None else {"kv_cache_free_gpu_mem_fraction": str(share)}),
        **spec.parameters,
    }
    return {
        **made,
        "backend": "tensorrtllm",
        "modelTransactionPolicy": {"decoupled": model.decoupled},
        "instanceGroup": [{"kind": "KIND_CPU", "count": 1}],
        "dynamicBatching": {
            "preferredBatchSize": [model.max_batch_size],
            "maxQueueDelayMicroseconds": spec.max_queue_delay_microseconds,
            "defaultQueuePolicy": {"maxQueueSize": spec.max_queue_size},
        },
        **triton.parameters(parameters),
    }
