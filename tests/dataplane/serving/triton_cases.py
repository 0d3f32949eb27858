"""A sound repository and what can be wrong with one: each case as a user would write it, and as config.pbtxt in a second hand.

`pbtxt` writes configurations on its own, from the same dictionaries and without our specs, so that faults reach the server as they are.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

ECHO = """
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "{0}").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("{1}", {2})]))
        return answers
"""
TEXT = {"dataType": "TYPE_STRING", "dims": [1]}
SOUND: dict[str, Any] = {
    "upper": {
        "kind": "python", "maxBatchSize": 8, "input": {"text": TEXT}, "output": {"loud": TEXT},
        "code": ECHO.format("text", "loud", "np.char.upper(given.astype(bytes)).astype(np.object_)"),
    },
    "count": {
        "kind": "python", "maxBatchSize": 4, "input": {"loud": TEXT, "base": {"dataType": "TYPE_INT32", "dims": [1], "optional": True}},
        "output": {"length": {"dataType": "TYPE_INT32", "dims": [1]}, "pair": {"dataType": "TYPE_INT32", "dims": [2]}},
        "code": ECHO.format("loud", "length", "np.char.str_len(given.astype(bytes)).astype(np.int32)"),
    },
    "both": {
        "kind": "ensemble", "maxBatchSize": 4, "input": {"said": TEXT}, "output": {"size": {"dataType": "TYPE_INT32", "dims": [1]}},
        "steps": [
            {"modelName": "upper", "inputMap": {"text": "said"}, "outputMap": {"loud": "shouted"}},
            {"modelName": "count", "inputMap": {"loud": "shouted"}, "outputMap": {"length": "size"}},
        ],
    },
}  # fmt: skip


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(repository: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        place: Any = repository
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        if value is _GONE:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value

    return change


_GONE = object()
_STEP = {"modelName": "upper", "inputMap": {"text": "said"}, "outputMap": {"loud": "other"}}
_WARM = {"batchSize": 1, "dims": {"text": [1]}}
_OUTER = {**SOUND["both"], "steps": [{"modelName": "both", "inputMap": {"said": "said"}, "outputMap": {"size": "size"}}]}
_WAIT = [
    {"modelName": "upper", "inputMap": {"text": "back"}, "outputMap": {"loud": "there"}},
    {"modelName": "upper", "inputMap": {"text": "there"}, "outputMap": {"loud": "back"}},
]

WRONG: dict[str, list[Callable[[dict[str, Any]], None]]] = {
    "a step names a model that is not there": [_set("both/steps/0/modelName", "lower")],
    "a step names a version that is not there": [_set("both/steps/0/modelVersion", 7)],
    "a step is its own ensemble": [_set("both/steps/0/modelName", "both")],
    "two ensembles contain each other": [_set("outer", _OUTER), _set("both/steps/0", {**_STEP, "modelName": "outer"})],
    "an ensemble has no steps": [_set("both/steps", [])],
    "a step maps an input that its model lacks": [_set("both/steps/0/inputMap/words", "said")],
    "a step leaves out an input that its model needs": [_set("count/input/base/optional", False)],
    "a step maps no input": [_set("both/steps/0/inputMap", {})],
    "a step maps an output that its model lacks": [_set("both/steps/0/outputMap", {"quiet": "shouted"})],
    "a step maps no output": [_set("both/steps/1/outputMap", {})],
    "a step reads a tensor that nothing writes": [_set("both/steps/1/inputMap/loud", "whispered")],
    "an output of the ensemble is written by nothing": [_set("both/output/total", {"dataType": "TYPE_INT32", "dims": [1]})],
    "an input of the ensemble is read by nothing": [_set("both/input/unread", TEXT)],
    "a step writes a tensor that nothing reads": [_set("both/steps/1/outputMap/pair", "unread")],
    "two steps write one tensor": [_set("both/steps/1/outputMap/pair", "shouted")],
    "a step writes over an input of the ensemble": [_set("both/steps/0/outputMap/loud", "said")],
    "two steps wait for each other": [lambda repository: repository["both"]["steps"].extend(copy.deepcopy(_WAIT))],
    "the type changes between two steps": [_set("count/input/loud/dataType", "TYPE_FP32")],
    "the shape changes between two steps": [_set("count/input/loud/dims", [3])],
    "the rank changes between two steps": [_set("count/input/loud/dims", [1, 1])],
    "the ensemble's input has another type than its reader": [_set("both/input/said/dataType", "TYPE_INT64")],
    "the ensemble's input has another shape than its reader": [_set("both/input/said/dims", [2])],
    "the ensemble's output has another type than its writer": [_set("both/output/size/dataType", "TYPE_FP32")],
    "the ensemble's output has another shape than its writer": [_set("both/output/size/dims", [2])],
    "the ensemble batches more than a step": [_set("both/maxBatchSize", 8)],
    "a preferred batch is above the largest": [_set("upper/dynamicBatching", {"preferredBatchSize": [16]})],
    "a preferred batch is of no requests": [_set("upper/dynamicBatching", {"preferredBatchSize": [0]})],
    "the default priority is no level": [_set("upper/dynamicBatching", {"priorityLevels": 2, "defaultPriorityLevel": 3})],
    "there are priorities and no default": [_set("upper/dynamicBatching", {"priorityLevels": 2})],
    "a queue delay is negative": [_set("upper/dynamicBatching", {"maxQueueDelayMicroseconds": -1})],
    "a dimension is 0": [_set("upper/input/text/dims", [0])],
    "a dimension is below -1": [_set("upper/input/text/dims", [-2])],
    "a tensor has no dimensions": [_set("upper/output/loud/dims", [])],
    "a type does not exist": [_set("upper/input/text/dataType", "TYPE_TEXT")],
    "a tensor has no type": [_set("upper/input/text/dataType", _GONE)],
    "a tensor has no name": [_set("upper/input/", TEXT)],
    "the largest batch is negative": [_set("upper/maxBatchSize", -1)],
    "the largest batch is a word": [_set("upper/maxBatchSize", "eight")],
    "the served version is not there": [_set("upper/versionPolicy", {"specific": [3]})],
    "answers in pieces are cached": [_set("upper/responseCache", True), _set("upper/decoupled", True)],
    "a key is misspelt": [_set("upper/maxBatchsize", 8)],
}


# Ours alone: tritonserver 2.51 takes the first and has no batch axis for its step; of the others it waits for ever, for a stub that has
# ended or for its own warm-up, and never becomes ready.
UNJUDGED = {
    "the ensemble batches and a step does not": [_set("count/maxBatchSize", 0)],
    "there is no source": [_set("upper/code", _GONE)],
    "a warm-up names an input that the model lacks": [_set("upper/warmup", [{**_WARM, "dims": {"text": [1], "more": [1]}}])],
    "a warm-up leaves out an input": [_set("count/warmup", [{**_WARM, "dims": {"base": [1]}}])],
    "a warm-up is larger than the largest batch": [_set("upper/warmup", [{**_WARM, "batchSize": 9}])],
    "a warm-up has another shape than the input": [_set("upper/warmup", [{**_WARM, "dims": {"text": [2]}}])],
}


def mutated(changes: list[Callable[[dict[str, Any]], None]]) -> dict[str, Any]:
    """The sound repository after `changes`."""
    repository = json.loads(json.dumps(SOUND))  # a copy without shared parts, so that a change reaches one place
    for change in changes:
        change(repository)
    return repository


def pbtxt(name: str, model: dict[str, Any], rename: Callable[[str], str] = str) -> str:
    """The model as config.pbtxt, whatever it says; `rename` changes the names of models."""
    text = [f'name: "{rename(name)}"', f"max_batch_size: {model.get('maxBatchSize', 0)}"]
    text += [_tensor("input", key, each) for key, each in model["input"].items()]
    text += [_tensor("output", key, each) for key, each in model["output"].items()]
    text += [f"{key}: 1" for key in model if key not in _KNOWN]
    if policy := model.get("versionPolicy"):
        text.append(f"version_policy {{ specific {{ versions: {policy['specific']} }} }}")
    if model["kind"] == "ensemble":
        return "\n".join([*text, 'platform: "ensemble"', "ensemble_scheduling {", *(_step(step, rename) for step in model["steps"]), "}"])
    text += ['backend: "python"', "instance_group { kind: KIND_CPU count: 1 }"]
    text += ["model_transaction_policy { decoupled: true }"] if model.get("decoupled") else []
    text += ["response_cache { enable: true }"] if model.get("responseCache") else []
    if "dynamicBatching" in model:
        inner = " ".join(f"{_snake(key)}: {value}" for key, value in model["dynamicBatching"].items())
        text.append(f"dynamic_batching {{ {inner} }}")
    return "\n".join(text)


_KNOWN = {
    "kind", "maxBatchSize", "input", "output", "code", "steps", "dynamicBatching", "versionPolicy", "responseCache", "decoupled"
}  # fmt: skip


def _tensor(field: str, name: str, tensor: dict[str, Any]) -> str:
    kind = f"data_type: {tensor['dataType']}" if "dataType" in tensor else ""
    return f'{field} {{ name: "{name}" {kind} dims: {tensor["dims"]} {"optional: true" if tensor.get("optional") else ""} }}'


def _step(step: dict[str, Any], rename: Callable[[str], str]) -> str:
    maps = [
        f'{field} {{ key: "{key}" value: "{value}" }}'
        for field, given in (("input_map", step["inputMap"]), ("output_map", step["outputMap"]))
        for key, value in given.items()
    ]
    return f'step {{ model_name: "{rename(step["modelName"])}" model_version: {step.get("modelVersion", -1)} {" ".join(maps)} }}'


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
