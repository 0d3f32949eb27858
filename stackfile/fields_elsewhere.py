"""Names the field that belongs in place of an unknown one, which other tools or other kinds of entries have."""

from __future__ import annotations

import re
from typing import Any

from components.spec import KeyPath, SpecError

# Fields of the engines' own options, of Helm charts and of manifests, and ours.
FIELDS_ELSEWHERE = {
    "gpu": "accelerators",
    "gpus": "accelerators",
    "gpuCount": "accelerators",
    "nodeSelector": "affinity",
    "nodePool": "pool",
    "tp": "tensorParallelSize",
    "pp": "pipelineParallelSize",
    "model": "weights",
    "args": "extraArgs",
    "clients": "consumers",
    "instanceType": "instanceTypes",
    "shmSize": "sharedMemory",
    "storageUri": "weights",
}
# Fields whose value has another form here: the field, and how it is written.
_FORMS = {
    "minReplicas": ("replicas", "replicas: {{min: {minReplicas}, max: {maxReplicas}}}"),
    "maxReplicas": ("replicas", "replicas: {{min: {minReplicas}, max: {maxReplicas}}}"),
    "size": ("nodes", "nodes: {size}"),
}


def field_hint(name: str, entry: dict[str, Any], allowed: list[str]) -> str:
    """Return the sentence that names the allowed field for the unknown field `name` of `entry`, "" if none is known."""
    field, form = _FORMS.get(name, ("", ""))
    if field in allowed:
        return f" Write {form.format_map(_values(entry))}."
    other = FIELDS_ELSEWHERE.get(name)
    return f" Did you mean {other!r}?" if other in allowed else ""


def without_renamed(errors: list[SpecError]) -> list[SpecError]:
    """Return `errors` without each missing field that the remedy for another field of the same mapping writes."""
    return [error for error in errors if not (error.message.startswith("Missing required field") and _is_renamed(error.path, errors))]


def _is_renamed(path: KeyPath, errors: list[SpecError]) -> bool:
    name = re.escape(str(path[-1]))
    remedy = re.compile(rf" (Did you mean '{name}'\?|Write {name}: )")
    return any(other.path[:-1] == path[:-1] and remedy.search(other.message) for other in errors)


def _values(entry: dict[str, Any]) -> dict[str, Any]:
    """The numbers that the forms show: those of `entry`, else an example."""
    size = entry.get("size")
    numbers = {**entry, "size": size.get("max") if isinstance(size, dict) else size}
    lowest = entry.get("minReplicas", 1)
    example = {"minReplicas": lowest, "maxReplicas": max(3, lowest) if type(lowest) is int else 3, "size": 1}
    return {key: numbers[key] if type(numbers.get(key)) is int else value for key, value in example.items()}
