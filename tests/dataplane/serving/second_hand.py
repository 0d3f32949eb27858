"""Writes config.pbtxt from what a user wrote, on its own and without our specs, so that faults
reach the server as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def pbtxt(name: str, model: dict[str, Any], rename: Callable[[str], str] = str) -> str:
    """The model as config.pbtxt, whatever it says; `rename` changes the names of models."""
    text = [f'name: "{rename(name)}"', f"max_batch_size: {model.get('maxBatchSize', 0)}"]
    text += [_tensor("input", key, each) for key, each in model["input"].items()]
    text += [_tensor("output", key, each) for key, each in model["output"].items()]
    text += [f"{key}: 1" for key in model if key not in _KNOWN]
    if policy := model.get("versionPolicy"):
        text.append(f"version_policy {{ specific {{ versions: {policy['specific']} }} }}")
    if model["kind"] == "ensemble":
        return "\n".join(
            [
                *text,
                'platform: "ensemble"',
                "ensemble_scheduling {",
                *(_step(step, rename) for step in model["steps"]),
                "}",
            ]
        )
    text += ['backend: "python"', "instance_group { kind: KIND_CPU count: 1 }"]
    text += ["model_transaction_policy { decoupled: true }"] if model.get("decoupled") else []
    text += ["response_cache { enable: true }"] if model.get("responseCache") else []
    if "dynamicBatching" in model:
        inner = " ".join(
            f"{_snake(key)}: {value}" for key, value in model["dynamicBatching"].items()
        )
        text.append(f"dynamic_batching {{ {inner} }}")
    return "\n".join(text)


_KNOWN = {
    "kind", "maxBatchSize", "input", "output", "code", "steps", "dynamicBatching", "versionPolicy", "responseCache", "decoupled"
}  # fmt: skip


def _tensor(field: str, name: str, tensor: dict[str, Any]) -> str:
    kind = f"data_type: {tensor['dataType']}" if "dataType" in tensor else ""
    return (
        f'{field} {{ name: "{name}" {kind} dims: {tensor["dims"]}'
        f" {'optional: true' if tensor.get('optional') else ''} }}"
    )


def _step(step: dict[str, Any], rename: Callable[[str], str]) -> str:
    maps = [
        f'{field} {{ key: "{key}" value: "{value}" }}'
        for field, given in (("input_map", step["inputMap"]), ("output_map", step["outputMap"]))
        for key, value in given.items()
    ]
    return (
        f'step {{ model_name: "{rename(step["modelName"])}" model_version:'
        f" {step.get('modelVersion', -1)} {' '.join(maps)} }}"
    )


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
