"""The configuration of Triton's vllm backend on a real tritonserver, as it is rendered, with a
backend of that name in vLLM's place.
"""

from __future__ import annotations

import json

import pytest

from tests.dataplane.serving.tensorrt_llm_stand import with_backend
from tests.dataplane.serving.triton_stand import generated, running, spec_of

# What vLLM's own backend reads, and as it does: model.json, the list of adapters, `stream`, and
# sampling among the request's parameters.
ECHO = """
import json, os
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        assert pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))
        with open(os.path.join(pb_utils.get_model_dir(), "model.json")) as file:
            self.settings = json.load(file)
        self.kind = args["model_instance_kind"]
        self.parameters = json.loads(args["model_config"])["parameters"]
        self.adapters = {}
        if self.settings.get("enable_lora"):
            with open(os.path.join(pb_utils.get_model_dir(), "multi_lora.json")) as file:
                self.adapters = json.load(file)
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            prompt = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().reshape(-1)[0].decode()
            given = json.loads(request.parameters() or "{}")
            told = {"settings": self.settings, "adapters": self.adapters, "kind": self.kind, "parameters": sorted(self.parameters)}
            words = [json.dumps(told)] if prompt == "tell" else prompt.split()[:int(given.get("max_tokens", 16))]
            stream = pb_utils.get_input_tensor_by_name(request, "stream")
            pieces = words if stream is not None and stream.as_numpy().reshape(-1)[0] else [" ".join(words)]
            for piece in pieces:
                tensor = pb_utils.Tensor("text_output", np.array([piece.encode()], dtype=np.object_))
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
MODEL = {
    "kind": "vllm", "maxModelLen": 4096, "loraAdapters": {"poet": "adapters/poet"}, "maxLoraRank": 16,
    "engineArgs": {"seed": 7}, "reportMetrics": True, "healthCheck": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def triton(tritonserver, tmp_path_factory):
    spec = spec_of({"llama": MODEL})
    server = with_backend(tritonserver, "vllm", ECHO, tmp_path_factory.mktemp("vllm") / "backends")
    files = generated(spec, tmp_path_factory.mktemp("weights"))
    with running(server, spec, files, tmp_path_factory.mktemp("repository")) as running_server:
        yield running_server


def told(triton):
    status, body = triton.ask("POST", "/v2/models/llama/generate", {"text_input": "tell"})
    assert status == 200, body
    return json.loads(json.loads(body)["text_output"])


def test_the_backend_gets_its_engines_arguments_and_adapters(triton):
    settings = told(triton)["settings"]
    assert (
        settings["max_model_len"],
        settings["seed"],
        settings["enable_lora"],
        settings["disable_log_stats"],
    ) == (4096, 7, True, False)
    assert told(triton)["adapters"] == {"poet": f"{settings['model']}/adapters/poet"}


def test_the_backend_has_one_instance_that_no_device_was_chosen_for(triton):
    assert told(triton)["kind"] == "MODEL"
    assert told(triton)["parameters"] == ["ENABLE_VLLM_HEALTH_CHECK", "REPORT_CUSTOM_METRICS"]


def test_an_answer_comes_whole_or_in_pieces_as_long_as_the_request_says(triton):
    status, body = triton.ask(
        "POST", "/v2/models/llama/generate", {"text_input": "a b c", "max_tokens": 2}
    )
    assert (status, json.loads(body)["text_output"]) == (200, "a b")
    pieces = [
        each["text_output"]
        for each in triton.stream("llama", text_input="a b c", max_tokens=2, stream=True)
    ]
    assert pieces == ["a", "b"]
