"""Small models for a real tritonserver: text generation over the words of a prompt, and a sound
repository of two models and an ensemble.
"""

from __future__ import annotations

from typing import Any

# Answers with the prompt's words backwards; a prompt "fail" raises, and "wait" waits until it is
# cancelled or a file appears.
GENERATOR = """
import os, time
class Generator:
    def __init__(self, weights, device, parameters):
        self.weights, self.device = weights, device
    def generate(self, rows):
        return [" ".join(self._words(prompt)[:tokens]) for prompt, tokens, temperature in rows]
    def stream(self, row, cancelled):
        if row[0] == "wait":
            open(os.path.join(self.weights, "waiting"), "w").close()
            while not os.path.exists(os.path.join(self.weights, "go")) and not cancelled():
                time.sleep(0.01)
        yield from self._words(row[0])[:row[1]]
    def _words(self, prompt):
        if prompt == "fail":
            raise RuntimeError("the generator failed")
        if prompt == "where":
            return [self.device, open(os.path.join(self.weights, "config.json")).read()]
        return prompt.split()[::-1]
"""
GENERATION: dict[str, Any] = {"kind": "textGeneration", "maxBatchSize": 8, "maxTokens": 3}
TEXT = {"dataType": "TYPE_STRING", "dims": [1]}
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


def relay(model: str) -> dict[str, Any]:
    """An ensemble of one step, which hands a prompt on to `model`, and the wish for pieces."""
    given = {"said": TEXT, "stream": {"dataType": "TYPE_BOOL", "dims": [1], "optional": True}}
    mapped = {"text_input": "said", "stream": "stream"}
    step = {"modelName": model, "inputMap": mapped, "outputMap": {"text_output": "answer"}}
    return {
        "kind": "ensemble",
        "maxBatchSize": 8,
        "input": given,
        "output": {"answer": TEXT},
        "steps": [step],
    }
