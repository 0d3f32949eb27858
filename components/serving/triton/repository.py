"""Builds a Triton model repository from its spec: config.pbtxt as messages, and the sources that python models run.

Weights are not part of it; they are mounted next to it. The same spec gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, assert_never

from components.handles import NodeTarget
from components.serving.triton.ensemble import EnsembleModel
from components.serving.triton.file_models import CustomModel, FileModel
from components.serving.triton.kinds import AnyModel
from components.serving.triton.messages import messages, parse_into, text_of
from components.serving.triton.models import ExecutedModel, PythonModel, RepositoryModel, TextGenerationModel
from components.serving.triton.served import TritonServed
from components.serving.triton.spec import TritonSpec
from components.serving.triton.tensors import DynamicBatching, VersionPolicy, Warmup
from components.serving.triton.vllm_model import VllmModel

# A version directory must exist even where nothing is in it, and a ConfigMap carries files only.
_PLACEHOLDER = "composed of other models\n"
_PLACEHOLDER_OF_BACKEND = "the backend brings the model\n"


def repository_files(spec: TritonSpec, *, weights: str, target: NodeTarget) -> dict[str, str]:
    """The repository's files by path; `weights` is the directory of the model's weights inside the pod."""
    placed: dict[str, str] = {}
    for name, model in spec.models.items():
        placed[f"{name}/config.pbtxt"] = text_of(config(name, model, spec, weights=weights, target=target))
        sources = sources_of(model, weights=weights, target=target)
        placed |= {f"{name}/{model.version}/{file}": text for file, text in sources.items()}
    return dict(sorted(placed.items()))


def config(name: str, model: AnyModel, spec: TritonServed, *, weights: str, target: NodeTarget) -> Any:
    """The ModelConfig of one model."""
    made = base_config(name, model)
    match model:
        case EnsembleModel():
            made.platform = "ensemble"
            for step in model.steps:
                made.ensemble_scheduling.step.add(
                    model_name=step.model_name,
                    model_version=-1 if step.model_version is None else step.model_version,
                    input_map=step.input_map,
                    output_map=step.output_map,
                )
        case PythonModel():
            _execute(made, model, spec, target)
            if model.file is not None:
                _parameters(made, {"file": f"{weights}/{model.file}"})
        case TextGenerationModel():
            _execute(made, model, spec, target)
            own = {"weights": weights, "max_tokens": str(model.max_tokens), "device": _device(target), **model.told(target)}
            if model.generator_file is not None:
                own["generator_file"] = f"{weights}/{model.generator_file}"
            _parameters(made, own)
        case FileModel() | CustomModel():
            _execute(made, model, spec, target)
            if model.file is not None:
                made.default_model_filename = model.file.rpartition("/")[2]
        case VllmModel():
            made.backend = "vllm"
            made.model_transaction_policy.decoupled = True
            # The engine takes the cards itself, however many instances Triton would place on them.
            made.instance_group.add(kind=messages().ModelInstanceGroup.KIND_MODEL, count=1)
            wanted = {"REPORT_CUSTOM_METRICS": model.report_metrics, "ENABLE_VLLM_HEALTH_CHECK": model.health_check}
            _parameters(made, {key: "true" for key, asked in wanted.items() if asked})
        case _:
            assert_never(model)
    return made


def base_config(name: str, model: RepositoryModel) -> Any:
    """A ModelConfig with what every kind of model has: its name, tensors, batch size and version policy."""
    made = messages().ModelConfig(name=name, max_batch_size=model.max_batch_size)
    types = messages().DataType
    for tensor, each in model.inputs.items():
        made.input.add(name=tensor, data_type=types.Value(each.data_type), dims=each.dims, optional=each.optional)
    for tensor, each in model.outputs.items():
        made.output.add(name=tensor, data_type=types.Value(each.data_type), dims=each.dims)
    if model.version_policy is not None:
        _version_policy(made, model.version_policy)
    return made


def _version_policy(made: Any, policy: VersionPolicy) -> None:
    if policy.latest is not None:
        made.version_policy.latest.num_versions = policy.latest
    elif policy.specific is not None:
        made.version_policy.specific.versions.extend(policy.specific)
    else:
        made.version_policy.all.SetInParent()


def _execute(made: Any, model: ExecutedModel, spec: TritonServed, target: NodeTarget) -> None:
    made.backend = model.backend
    if model.streams:
        made.model_transaction_policy.decoupled = True
    if model.response_cache:
        made.response_cache.enable = True
    _instances(made, model, spec, target)
    if model.dynamic_batching is not None:
        _batching(made.dynamic_batching, model.dynamic_batching)
    if model.sequence_batching is not None:
        # An empty message means default batching, but parsing an empty object would leave it unset.
        made.sequence_batching.SetInParent()
        parse_into(made.sequence_batching, model.sequence_batching.message())
    for number, warmup in enumerate(model.warmup):
        _warmup(made, model, f"warmup-{number}", warmup)
    _parameters(made, model.parameters)


def _instances(made: Any, model: ExecutedModel, spec: TritonServed, target: NodeTarget) -> None:
    kinds = messages().ModelInstanceGroup
    cards = spec.accelerators_per_pod
    count = model.instances or (cards if model.on_cards else 1)
    if model.on_cards and target.accelerator is not None and target.accelerator.vendor == "nvidia":
        group = made.instance_group.add(kind=kinds.KIND_GPU, count=count // cards, gpus=list(range(cards)))
    else:
        # Triton sees no HPU: each process takes the next free card of those that the device plugin gave the pod.
        group = made.instance_group.add(kind=kinds.KIND_CPU, count=count)
    if model.rate_limiter is not None:
        group.rate_limiter.priority = model.rate_limiter.priority
        for resource, amount in sorted(model.rate_limiter.resources.items()):
            group.rate_limiter.resources.add(name=resource, count=amount)


def _batching(made: Any, batching: DynamicBatching) -> None:
    made.SetInParent()
    made.preferred_batch_size.extend(batching.preferred_batch_size)
    made.max_queue_delay_microseconds = batching.max_queue_delay_microseconds
    made.preserve_ordering = batching.preserve_ordering
    made.priority_levels = batching.priority_levels
    made.default_priority_level = batching.default_priority_level
    if batching.max_queue_size or batching.default_timeout_microseconds:
        made.default_queue_policy.max_queue_size = batching.max_queue_size
        made.default_queue_policy.default_timeout_microseconds = batching.default_timeout_microseconds


def _warmup(made: Any, model: ExecutedModel, name: str, warmup: Warmup) -> None:
    added = made.model_warmup.add(name=name, batch_size=warmup.batch_size, count=warmup.count)
    for tensor, dims in sorted(warmup.dims.items()):
        given = added.inputs[tensor]
        data_type = model.inputs[tensor].data_type
        given.data_type = messages().DataType.Value(data_type)
        given.dims.extend(dims)
        if data_type == "TYPE_STRING":
            given.zero_data = True
        else:
            given.random_data = True


def _parameters(made: Any, parameters: Mapping[str, str]) -> None:
    for key, value in parameters.items():
        made.parameters[key].string_value = value


def _device(target: NodeTarget) -> str:
    return "cuda" if target.accelerator is None or target.accelerator.vendor == "nvidia" else "hpu"


def sources_of(model: AnyModel, *, weights: str, target: NodeTarget) -> dict[str, str]:
    """The files in the model's version directory, by name."""
    match model:
        case EnsembleModel():
            return {"ensemble.txt": _PLACEHOLDER}
        case PythonModel():
            return {"model.py": model.code or _payload("file_model.py")}
        case TextGenerationModel():
            source = model.source()
            return {"model.py": _payload("text_generation.py")} | ({} if source is None else {"generator.py": source})
        case FileModel():
            return {}
        case CustomModel():
            return {} if model.file is not None else {"custom.txt": _PLACEHOLDER_OF_BACKEND}
        case VllmModel():
            sources = {"model.json": json.dumps(model.settings(weights, target.accelerator), indent=2) + "\n"}
            if model.lora_adapters:
                sources["multi_lora.json"] = json.dumps(model.adapters(weights), indent=2) + "\n"
            return sources
        case _:
            assert_never(model)


def _payload(name: str) -> str:
    return (files("components.serving.triton") / "payload" / name).read_text(encoding="utf-8")
