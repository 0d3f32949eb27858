"""Builds a Triton model repository from its spec: config.pbtxt of each model, and the sources that
python models run.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, assert_never

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.hardware import vendor_of
from inferplan.components.serving.remote_code import ReviewedCode
from inferplan.components.serving.triton.ensemble import EnsembleModel
from inferplan.components.serving.triton.messages import text_of
from inferplan.components.serving.triton.models import (
    CustomModel,
    ExecutedModel,
    FileModel,
    PythonModel,
    RepositoryModel,
)
from inferplan.components.serving.triton.scheduling import Warmup
from inferplan.components.serving.triton.served import TritonServed
from inferplan.components.serving.triton.spec import AnyModel, TritonSpec
from inferplan.components.serving.triton.text_models import TextGenerationModel, VllmModel

# A version directory must exist even if it is empty, and a ConfigMap has files only.
_PLACEHOLDER = "composed of other models\n"
_PLACEHOLDER_OF_BACKEND = "the backend brings the model\n"


def repository_files(spec: TritonSpec, *, weights: str, target: NodeTarget) -> dict[str, str]:
    """Return the repository's files by path; `weights` is the directory of the model's weights
    inside the pod.
    """
    placed: dict[str, str] = {}
    for name, model in spec.models.items():
        placed |= model_files(name, model, spec, weights=weights, target=target)
    return dict(sorted(placed.items()))


def model_files(
    name: str, model: AnyModel, spec: TritonServed, *, weights: str, target: NodeTarget
) -> dict[str, str]:
    trusted = isinstance(spec, ReviewedCode) and bool(spec.trust_remote_code)
    sources = _sources(model, weights=weights, target=target, trusted=trusted)
    placed = {f"{name}/{model.version}/{file}": text for file, text in sources.items()}
    return {
        **placed,
        f"{name}/config.pbtxt": text_of(
            base_config(name, model) | _config(model, spec, weights=weights, target=target)
        ),
    }


def base_config(name: str, model: RepositoryModel) -> dict[str, Any]:
    """Return the fields of every kind of model: its name, tensors, batch size and version policy."""
    inputs = [
        {"name": tensor, "dataType": each.data_type, "dims": each.dims, "optional": each.optional}
        for tensor, each in model.inputs.items()
    ]
    outputs = [
        {"name": tensor, "dataType": each.data_type, "dims": each.dims}
        for tensor, each in model.outputs.items()
    ]
    policy = (
        {} if model.version_policy is None else {"versionPolicy": model.version_policy.message()}
    )
    return {
        "name": name,
        "maxBatchSize": model.max_batch_size,
        "input": inputs,
        "output": outputs,
        **policy,
    }


def parameters(values: Mapping[str, str]) -> dict[str, Any]:
    return {"parameters": {key: {"stringValue": value} for key, value in values.items()}}


def _config(
    model: AnyModel, spec: TritonServed, *, weights: str, target: NodeTarget
) -> dict[str, Any]:
    match model:
        case EnsembleModel():
            steps = [
                {
                    "modelName": step.model_name,
                    "modelVersion": -1 if step.model_version is None else step.model_version,
                    "inputMap": step.input_map,
                    "outputMap": step.output_map,
                }
                for step in model.steps
            ]
            return {"platform": "ensemble", "ensembleScheduling": {"step": steps}}
        case PythonModel():
            return _executed(
                model,
                spec,
                target,
                {} if model.file is None else {"file": f"{weights}/{model.file}"},
            )
        case TextGenerationModel():
            vendor = vendor_of(target)
            device = "cuda" if vendor is None else vendor.device
            own = {
                "weights": weights,
                "max_tokens": str(model.max_tokens),
                "device": device,
                **model.generator_parameters(target),
            }
            if model.generator_file is not None:
                own["generator_file"] = f"{weights}/{model.generator_file}"
            return _executed(model, spec, target, own)
        case FileModel() | CustomModel():
            file = (
                {}
                if model.file is None
                else {"defaultModelFilename": model.file.rpartition("/")[2]}
            )
            return _executed(model, spec, target, {}) | file
        case VllmModel():
            flags = {
                "REPORT_CUSTOM_METRICS": model.report_metrics,
                "ENABLE_VLLM_HEALTH_CHECK": model.health_check,
            }
            return {
                "backend": "vllm",
                "modelTransactionPolicy": {"decoupled": True},
                # The engine takes the accelerators itself, regardless of the instances that Triton
                # would place on them.
                "instanceGroup": [{"kind": "KIND_MODEL", "count": 1}],
                **parameters({key: "true" for key, on in flags.items() if on}),
            }
        case _:
            assert_never(model)


def _executed(
    model: ExecutedModel, spec: TritonServed, target: NodeTarget, own: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of a model that a backend executes, with the parameters `own`."""
    made: dict[str, Any] = {
        "backend": model.backend,
        "instanceGroup": [_instances(model, spec, target)],
    }
    if model.streams:
        made["modelTransactionPolicy"] = {"decoupled": True}
    if model.response_cache:
        made["responseCache"] = {"enable": True}
    if model.dynamic_batching is not None:
        made["dynamicBatching"] = model.dynamic_batching.message()
    if model.sequence_batching is not None:
        made["sequenceBatching"] = model.sequence_batching.message()
    made["modelWarmup"] = [
        _warmup(model, f"warmup-{number}", warmup) for number, warmup in enumerate(model.warmup)
    ]
    return made | parameters({**model.parameters, **own})


def _instances(model: ExecutedModel, spec: TritonServed, target: NodeTarget) -> dict[str, Any]:
    accelerators = spec.accelerators_per_pod
    count = model.instances or (accelerators if model.on_accelerators else 1)
    vendor = vendor_of(target)
    if model.on_accelerators and vendor is not None and vendor.triton_kind is not None:
        group = {
            "kind": vendor.triton_kind,
            "count": count // accelerators,
            "gpus": list(range(accelerators)),
        }
    else:
        # Triton sees no HPU: each process takes the next free accelerator of those that the device
        # plugin gave the pod.
        group = {"kind": "KIND_CPU", "count": count}
    if model.rate_limiter is None:
        return group
    resources = [
        {"name": resource, "count": amount}
        for resource, amount in sorted(model.rate_limiter.resources.items())
    ]
    return {
        **group,
        "rateLimiter": {"priority": model.rate_limiter.priority, "resources": resources},
    }


def _warmup(model: ExecutedModel, name: str, warmup: Warmup) -> dict[str, Any]:
    inputs = {}
    for tensor, dims in warmup.dims.items():
        data_type = model.inputs[tensor].data_type
        inputs[tensor] = {
            "dataType": data_type,
            "dims": dims,
            "zeroData" if data_type == "TYPE_STRING" else "randomData": True,
        }
    return {"name": name, "batchSize": warmup.batch_size, "count": warmup.count, "inputs": inputs}


def _sources(model: AnyModel, *, weights: str, target: NodeTarget, trusted: bool) -> dict[str, str]:
    """Return the files in the model's version directory, by name."""
    match model:
        case EnsembleModel():
            return {"ensemble.txt": _PLACEHOLDER}
        case PythonModel():
            return {"model.py": model.code or _payload("file_model.py")}
        case TextGenerationModel():
            source = model.source()
            return {"model.py": _payload("text_generation.py")} | (
                {} if source is None else {"generator.py": source}
            )
        case FileModel():
            return {}
        case CustomModel():
            return {} if model.file is not None else {"custom.txt": _PLACEHOLDER_OF_BACKEND}
        case VllmModel():
            adapters = {name: f"{weights}/{path}" for name, path in model.lora_adapters.items()}
            settings = model.settings(weights, target.accelerator) | (
                {"trust_remote_code": True} if trusted else {}
            )
            documents = {"model.json": settings, "multi_lora.json": adapters}
            return {
                file: json.dumps(document, indent=2) + "\n"
                for file, document in documents.items()
                if document
            }
        case _:
            assert_never(model)


def _payload(name: str) -> str:
    return (files("inferplan.components.serving.triton") / "payload" / name).read_text(
        encoding="utf-8"
    )
