"""A sound repository, what can be wrong with one, and what may be otherwise in it: each case as a
user would write it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.dataplane.serving.triton_models import SOUND, TEXT

Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Case:
    """What makes the repository wrong, and what each side says to that."""

    changes: list[Change]
    ours: str
    servers: str


def _set(path: str, value: Any) -> Change:
    def change(repository: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        place: Any = repository
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        if isinstance(place, list) and int(last) == len(place):
            place.append(value)
        elif value is _GONE:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value

    return change


_GONE = object()
_WARM = {"batchSize": 1, "dims": {"text": [1]}}
_OUTER = {
    **SOUND["both"],
    "steps": [{"modelName": "both", "inputMap": {"said": "said"}, "outputMap": {"size": "size"}}],
}
_INNER = {"modelName": "outer", "inputMap": {"said": "said"}, "outputMap": {"size": "size"}}
_WAIT = [
    {"modelName": "upper", "inputMap": {"text": "back"}, "outputMap": {"loud": "there"}},
    {"modelName": "upper", "inputMap": {"text": "there"}, "outputMap": {"loud": "back"}},
]

# Each with what our validation says and what the server says, so that neither refuses a case for
# another reason.
WRONG: dict[str, Case] = {
    "a step names a model that is not there": Case(
        [_set("both/steps/0/modelName", "lower")],
        "'lower' is not a model of this repository",
        "not available or ambiguous: lower",
    ),
    "a step names a version that is not there": Case(
        [_set("both/steps/0/modelVersion", 7)],
        "modelVersion 7 of 'upper' does not exist",
        "'upper' whose required version 7 is not loaded",
    ),
    "a step is its own ensemble": Case(
        [_set("both/steps/0/modelName", "both")],
        "cannot be a step of itself",
        "circular dependency",
    ),
    "two ensembles contain each other": Case(
        [_set("outer", _OUTER), _set("both/steps", [_INNER])],
        "contains itself through other ensembles",
        "circular dependency",
    ),
    "an ensemble has no steps": Case(
        [_set("both/steps", [])], "steps: List should have at least 1 item", "must specify 'step'"
    ),
    "a step maps an input that its model lacks": Case(
        [_set("both/steps/0/inputMap/words", "said")],
        "inputMap names 'words'",
        "non-existing input words",
    ),
    "a step leaves out an input that its model needs": Case(
        [_set("count/input/base/optional", False)],
        "inputMap leaves out base",
        "input base in model",
    ),
    "a step maps no input": Case(
        [_set("both/steps/0/inputMap", {})],
        "inputMap: Dictionary should have at least 1 item",
        "must specify 'input_map'",
    ),
    "a step maps an output that its model lacks": Case(
        [_set("both/steps/0/outputMap", {"quiet": "shouted"})],
        "outputMap names 'quiet'",
        "non-existing output quiet",
    ),
    "a step maps no output": Case(
        [_set("both/steps/1/outputMap", {})],
        "outputMap: Dictionary should have at least 1 item",
        "must specify 'output_map'",
    ),
    "a step reads a tensor that nothing writes": Case(
        [_set("both/steps/1/inputMap/loud", "whispered")],
        "'whispered', read as input 'loud' of 'count', is written by nothing",
        "'whispered', is not connected",
    ),
    "an output of the ensemble is written by nothing": Case(
        [_set("both/output/total", {"dataType": "TYPE_INT32", "dims": [1]})],
        "'total', read as the ensemble's output, is written by nothing",
        "output 'total'",
    ),
    "an input of the ensemble is read by nothing": Case(
        [_set("both/input/unread", TEXT)],
        "'unread', the ensemble's input, is read by nothing",
        "input 'unread'",
    ),
    "a step writes a tensor that nothing reads": Case(
        [_set("both/steps/1/outputMap/pair", "unread")],
        "'unread', output 'pair' of 'count', is read by nothing",
        "'unread' is unused",
    ),
    "two steps write one tensor": Case(
        [_set("both/steps/1/outputMap/pair", "shouted")],
        "'shouted' is written by output 'loud' of 'upper' and by 'count'",
        "'shouted' can appear in an output map only once",
    ),
    "a step writes over an input of the ensemble": Case(
        [_set("both/steps/0/outputMap/loud", "said")],
        "'said' is written by the ensemble's input and by 'upper'",
        "'shouted', is not connected",
    ),
    "two steps wait for each other": Case(
        [lambda repository: repository["both"]["steps"].extend(copy.deepcopy(_WAIT))],
        "wait for each other's tensors",
        "'back' is unused",
    ),
    "the type changes between two steps": Case(
        [_set("count/input/loud/dataType", "TYPE_FP32")],
        "TYPE_STRING as output 'loud' of 'upper' and TYPE_FP32 as input",
        "shouted: inconsistent data type",
    ),
    "the shape changes between two steps": Case(
        [_set("count/input/loud/dims", [3])],
        "[-1, 1] as output 'loud' of 'upper' and [-1, 3] as input",
        "shouted: inconsistent shape: [-1,1]",
    ),
    "the rank changes between two steps": Case(
        [_set("count/input/loud/dims", [1, 1])],
        "[-1, 1] as output 'loud' of 'upper' and [-1, 1, 1] as input",
        "shouted: inconsistent shape: [-1,1]",
    ),
    "the ensemble's input has another type than its reader": Case(
        [_set("both/input/said/dataType", "TYPE_INT64")],
        "TYPE_INT64 as the ensemble's input and TYPE_STRING",
        "said: inconsistent data type",
    ),
    "the ensemble's input has another shape than its reader": Case(
        [_set("both/input/said/dims", [2])],
        "[-1, 2] as the ensemble's input and [-1, 1]",
        "said: inconsistent shape",
    ),
    "the ensemble's output has another type than its writer": Case(
        [_set("both/output/size/dataType", "TYPE_FP32")],
        "TYPE_INT32 as output 'length' of 'count' and TYPE_FP32",
        "size: inconsistent data type",
    ),
    "the ensemble's output has another shape than its writer": Case(
        [_set("both/output/size/dims", [2])],
        "[-1, 1] as output 'length' of 'count' and [-1, 2]",
        "size: inconsistent shape",
    ),
    "the ensemble batches more than a step": Case(
        [_set("both/maxBatchSize", 8)],
        "maxBatchSize 8 of the ensemble is above 4 of 'count'",
        "allows maximum batch size 8",
    ),
    "a preferred batch is above the largest": Case(
        [_set("upper/dynamicBatching", {"preferredBatchSize": [16]})],
        "preferredBatchSize [16] is above maxBatchSize 8",
        "preferred size must be <= max batch size",
    ),
    "a preferred batch is of no requests": Case(
        [_set("upper/dynamicBatching", {"preferredBatchSize": [0]})],
        "preferredBatchSize.0: Input should be greater than 0",
        "preferred size must be positive",
    ),
    "the default priority is no level": Case(
        [_set("upper/dynamicBatching", {"priorityLevels": 2, "defaultPriorityLevel": 3})],
        "defaultPriorityLevel is 3",
        "default priority level must be in range [1, 2]",
    ),
    "there are priorities and no default": Case(
        [_set("upper/dynamicBatching", {"priorityLevels": 2})],
        "defaultPriorityLevel is 0",
        "default priority level must be in range [1, 2]",
    ),
    "a queue delay is negative": Case(
        [_set("upper/dynamicBatching", {"maxQueueDelayMicroseconds": -1})],
        "maxQueueDelayMicroseconds: Input should be greater than or equal to 0",
        "failed to read text proto",
    ),
    "a dimension is 0": Case(
        [_set("upper/input/text/dims", [0])],
        "dims [0] holds a 0",
        "'text' dimension must be integer >= 1",
    ),
    "a dimension is below -1": Case(
        [_set("upper/input/text/dims", [-2])],
        "dims.0: Input should be greater than or equal to -1",
        "'text' dimension must be integer >= 1",
    ),
    "a tensor has no dimensions": Case(
        [_set("upper/output/loud/dims", [])],
        "dims: List should have at least 1 item",
        "output 'loud' must specify 'dims'",
    ),
    "a type does not exist": Case(
        [_set("upper/input/text/dataType", "TYPE_TEXT")],
        "dataType: Input should be 'TYPE_BOOL'",
        "failed to read text proto",
    ),
    "a tensor has no type": Case(
        [_set("upper/input/text/dataType", _GONE)],
        "dataType: Field required",
        "must specify 'data_type'",
    ),
    "a tensor has no name": Case(
        [_set("upper/input/", TEXT)], "String should match pattern", "input must specify 'name'"
    ),
    "the largest batch is negative": Case(
        [_set("upper/maxBatchSize", -1)],
        "maxBatchSize: Input should be greater than or equal to 0",
        "'max_batch_size' must be non-negative",
    ),
    "the largest batch is a word": Case(
        [_set("upper/maxBatchSize", "eight")],
        "maxBatchSize: Input should be a valid integer",
        "failed to read text proto",
    ),
    "the served version is not there": Case(
        [_set("upper/versionPolicy", {"specific": [3]})],
        "versionPolicy.specific is [3]",
        "version 3 is specified",
    ),
    "answers in pieces are cached": Case(
        [_set("upper/responseCache", True), _set("upper/decoupled", True)],
        "responseCache holds single answers",
        "'decoupled' transaction policy",
    ),
    "a key is misspelt": Case(
        [_set("upper/maxBatchsize", 8)],
        "maxBatchsize: Extra inputs are not permitted",
        "failed to read text proto",
    ),
}


# Ours alone: tritonserver 2.51 takes the first and has no batch axis for its step; of the others it
# waits for ever, for a stub that has ended or for its own warm-up, and never becomes ready.
UNJUDGED: dict[str, list[Change]] = {
    "the ensemble batches and a step does not": [_set("count/maxBatchSize", 0)],
    "there is no source": [_set("upper/code", _GONE)],
    "a warm-up names an input that the model lacks": [
        _set("upper/warmup", [{**_WARM, "dims": {"text": [1], "more": [1]}}])
    ],
    "a warm-up leaves out an input": [_set("count/warmup", [{**_WARM, "dims": {"base": [1]}}])],
    "a warm-up is larger than the largest batch": [
        _set("upper/warmup", [{**_WARM, "batchSize": 9}])
    ],
    "a warm-up has another shape than the input": [
        _set("upper/warmup", [{**_WARM, "dims": {"text": [2]}}])
    ],
}


# Both take these: a validation that refuses what works is as wrong.
FITTING: dict[str, list[Change]] = {
    "a shape that varies meets one that does not": [_set("count/input/loud/dims", [-1])],
    "a step leaves out an input that may be left out": [_set("both/steps/1/inputMap", {"loud": "shouted"})],
    "a step maps an optional input": [
        _set("both/input/base", {"dataType": "TYPE_INT32", "dims": [1]}), _set("both/steps/1/inputMap/base", "base"),
    ],
    "a tensor is read twice": [
        _set("both/steps/2", {"modelName": "upper", "inputMap": {"text": "said"}, "outputMap": {"loud": "again"}}), _set("both/output/again", TEXT),
    ],
    "a tensor between steps is an output too": [_set("both/output/shouted", TEXT)],
    "an ensemble is a step of another": [_set("outer", _OUTER)],
    "steps stand in another order than they run": [lambda repository: repository["both"]["steps"].reverse()],
    "a step names the version that is there": [_set("both/steps/0/modelVersion", 1)],
    "the ensemble batches less than its steps": [_set("both/maxBatchSize", 2)],
    "the largest batch is preferred": [_set("upper/dynamicBatching", {"preferredBatchSize": [8]})],
    "the lowest priority is the default": [_set("upper/dynamicBatching", {"priorityLevels": 2, "defaultPriorityLevel": 2})],
    "the version that is there is the one that is served": [_set("upper/versionPolicy", {"specific": [1]})],
}  # fmt: skip


def mutated(changes: list[Change]) -> dict[str, Any]:
    """The sound repository after `changes`."""
    repository = json.loads(
        json.dumps(SOUND)
    )  # a copy without shared parts, so that a change reaches one place
    for change in changes:
        change(repository)
    return repository
