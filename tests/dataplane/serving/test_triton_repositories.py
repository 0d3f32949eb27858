"""A real tritonserver loads repositories that exist already, python models of several files, and
stateful models.

The server of the nvidia-pytriton package has the python backend only, so files of other backends
are tested up to their config.pbtxt.
"""

from __future__ import annotations

import json

import pytest

from inferplan.components.preheat.payload.manifest import READY, SIZES
from inferplan.components.serving.triton.spec import TritonSpec
from tests.dataplane.serving.triton_stand import generated, running, spec_of, write
from tests.ports import free_port

ECHO = """
import triton_python_backend_utils as pb_utils
from rules import shout

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", shout(x))]))
        return answers
"""
RULES = """
import numpy as np

def shout(values):
    return np.array([each.upper() for each in values.ravel()], dtype=object).reshape(values.shape)
"""
SUM = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        answers = []
        for request in requests:
            x, start, sequence = (pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0] for name in ("x", "START", "ID"))
            self.sums[sequence] = int(x) + (0 if start else self.sums[sequence])
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([self.sums[sequence]], dtype=np.int32))]))
        return answers
"""
TEXT = {
    "input": {"x": {"dataType": "TYPE_STRING", "dims": [1]}},
    "output": {"y": {"dataType": "TYPE_STRING", "dims": [1]}},
}
NUMBER = {
    "input": {"x": {"dataType": "TYPE_INT32", "dims": [1]}},
    "output": {"y": {"dataType": "TYPE_INT32", "dims": [1]}},
}
SEQUENCES = {
    "oldest": {"maxCandidateSequences": 4},
    "maxSequenceIdleMicroseconds": 400_000_000,
    "controlInput": [
        {
            "name": "START",
            "control": [{"kind": "CONTROL_SEQUENCE_START", "int32FalseTrue": [0, 1]}],
        },
        {"name": "ID", "control": [{"kind": "CONTROL_SEQUENCE_CORRID", "dataType": "TYPE_UINT64"}]},
    ],
}
CONFIG = """
backend: "python"
input { name: "x" data_type: TYPE_STRING dims: 1 }
output { name: "y" data_type: TYPE_STRING dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
"""


@pytest.fixture(scope="module")
def described(tritonserver, tmp_path_factory):
    weights = tmp_path_factory.mktemp("weights")
    write({"shouting/model.py": ECHO, "shouting/rules.py": RULES}, weights)
    repository = {
        "echo": {"kind": "python", "file": "shouting/model.py", **TEXT},
        "total": {"kind": "python", "code": SUM, **NUMBER, "sequenceBatching": SEQUENCES},
    }
    spec = spec_of(repository)
    with running(
        tritonserver, spec, generated(spec, weights), tmp_path_factory.mktemp("described")
    ) as server:
        yield server


@pytest.fixture(scope="module")
def existing(tritonserver, tmp_path_factory):
    ports = {"http": free_port(), "grpc": free_port(), "metrics": free_port()}
    repository = {"store": "models", "path": "vision", "models": ["echo"]}
    spec = TritonSpec.model_validate(
        {"engine": "triton", "pool": "gaudi", "ports": ports, "repository": repository}
    )
    files = {"echo/config.pbtxt": CONFIG, "echo/1/model.py": ECHO, "echo/1/rules.py": RULES}
    # A preheat leaves its marks next to the models.
    marks = {READY: json.dumps({}), SIZES: "0 nothing\n"}
    with running(tritonserver, spec, files | marks, tmp_path_factory.mktemp("existing")) as server:
        yield server


def infer(server, model, value, **parameters):
    kind = "BYTES" if isinstance(value, str) else "INT32"
    body = {
        "inputs": [{"name": "x", "datatype": kind, "shape": [1], "data": [value]}],
        "parameters": parameters,
    }
    status, answer = server.ask("POST", f"/v2/models/{model}/infer", body)
    assert status == 200, answer
    return json.loads(answer)["outputs"][0]["data"][0]


def test_a_python_model_imports_the_modules_next_to_its_file(described):
    assert infer(described, "echo", "four") == "FOUR"


def test_a_stateful_model_keeps_sequences_apart(described):
    first, second = {"sequence_id": 7}, {"sequence_id": 8}
    assert infer(described, "total", 1, sequence_start=True, **first) == 1
    assert infer(described, "total", 10, sequence_start=True, **second) == 10
    assert infer(described, "total", 2, **first) == 3
    assert infer(described, "total", 20, sequence_end=True, **second) == 30
    assert infer(described, "total", 4, sequence_end=True, **first) == 7


def test_a_request_without_a_sequence_is_an_error_of_that_request(described):
    body = {"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}]}
    status, answer = described.ask("POST", "/v2/models/total/infer", body)
    assert (status, b"correlation ID" in answer) == (400, True), answer


@pytest.mark.full
def test_an_existing_repository_is_served_as_it_is_next_to_the_marks_of_a_preheat(existing):
    assert infer(existing, "echo", "seventy") == "SEVENTY"
