"""What the component generates, a real tritonserver loads and serves: infer, generate, streams, gRPC, and an end without lost answers."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.dataplane.serving.triton_cases import SOUND
from tests.dataplane.serving.triton_stand import generated, running, spec_of

# Answers with the prompt's words backwards; a prompt "fail" raises, and "wait" waits until it is cancelled or a file appears.
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
GENERATION = {"kind": "textGeneration", "maxBatchSize": 8, "maxTokens": 3}
CLIENT = Path(__file__).parent / "grpc_client.py"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    directory = tmp_path_factory.mktemp("weights")
    (directory / "generator.py").write_text(GENERATOR)
    (directory / "upper.py").write_text(SOUND["upper"]["code"])
    (directory / "config.json").write_text("tiny")
    return directory


@pytest.fixture(scope="module")
def triton(tritonserver, weights, tmp_path_factory):
    upper = {key: value for key, value in SOUND["upper"].items() if key != "code"}
    repository = {
        "whole": {**GENERATION, "generator": GENERATOR, "dynamicBatching": {"preferredBatchSize": [4]}, "versionPolicy": {"specific": [1]}},
        "cached": {**GENERATION, "generator": GENERATOR, "responseCache": True, "version": 3, "versionPolicy": {"all": True}},
        "pieces": {**GENERATION, "generatorFile": "generator.py", "streaming": True, "dynamicBatching": {}, "versionPolicy": {"latest": 1}},
        **SOUND,
        "upper": {
            **upper,
            "file": "upper.py",
            "rateLimiter": {"resources": {"slots": 1}},
            "warmup": [{"batchSize": 1, "dims": {"text": [1]}}],
        },
    }
    spec = spec_of(repository, accelerators=2, responseCacheSize="1Mi", metrics={"summaryLatencies": True, "intervalMs": 500})
    with running(tritonserver, spec, generated(spec, weights), tmp_path_factory.mktemp("repository")) as server:
        yield server


def grpc(triton, *calls):
    command = [str(triton.binary.environment.python), str(CLIENT), f"127.0.0.1:{triton.spec.ports.grpc}", json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_public_model_is_ready_and_so_is_the_server(triton):
    assert triton.ask("GET", "/v2/health/ready")[0] == 200
    assert triton.spec.public == ("whole", "cached", "pieces", "both")
    for model in triton.spec.repository:
        assert triton.ask("GET", f"/v2/models/{model}/ready")[0] == 200


def test_a_batch_is_answered_row_by_row(triton):
    assert triton.infer("whole", text_input=("BYTES", ["a b", "c d"])) == {"text_output": ["b a", "d c"]}


def test_the_default_and_the_requests_own_number_of_tokens_hold(triton):
    assert triton.infer("whole", text_input=("BYTES", ["a b c d e"]))["text_output"] == ["e d c"]
    assert triton.infer("whole", text_input=("BYTES", ["a b c d e"]), max_tokens=("INT32", [1]))["text_output"] == ["e"]


def test_the_generator_gets_its_weights_and_its_device(triton):
    assert triton.infer("whole", text_input=("BYTES", ["where"]))["text_output"] == ["hpu tiny"]


@pytest.mark.parametrize(
    ("prompt", "fields", "said"),
    [("fail", {}, "the generator failed"), ("x", {"max_tokens": 0}, "write 1 to"), ("x", {"temperature": -1.0}, "temperature")],
)
def test_a_fault_is_the_answer_of_that_request_and_the_model_stays(triton, prompt, fields, said):
    for model in ("whole", "pieces"):
        status, body = triton.ask("POST", f"/v2/models/{model}/generate", {"text_input": prompt, **fields})
        assert status == 400
        assert said in json.loads(body)["error"]
    assert triton.infer("whole", text_input=("BYTES", ["a"]))["text_output"] == ["a"]


def test_a_stream_comes_in_pieces_and_without_being_asked_for_in_one(triton):
    assert [each["text_output"] for each in triton.stream("pieces", text_input="x y z", stream=True)] == ["z", "y", "x"]
    assert [each["text_output"] for each in triton.stream("pieces", text_input="x y z")] == ["z y x"]


def test_a_model_that_streams_answers_a_plain_request_once(triton):
    status, body = triton.ask("POST", "/v2/models/pieces/generate", {"text_input": "x y"})
    assert (status, json.loads(body)["text_output"]) == (200, "y x")


def test_an_ensemble_answers_through_its_steps_and_a_file_beside_the_weights(triton):
    assert triton.infer("both", said=("BYTES", ["four", "seventy"]))["size"] == [4, 7]


def test_grpc_infers_and_streams(triton):
    answers = grpc(
        triton,
        ["whole", {"text_input": ["BYTES", ["g h", "i j"]]}, False],
        ["pieces", {"text_input": ["BYTES", ["x y z"]], "stream": ["BOOL", [True]]}, True],
        ["both", {"said": ["BYTES", ["four"]]}, False],
        ["whole", {"text_input": ["BYTES", ["fail"]]}, False],
    )
    assert answers[:3] == [[["h g", "j i"]], [["z"], ["y"], ["x"]], [[4]]]
    assert "the generator failed" in answers[3]


def test_a_repeated_request_is_answered_from_the_cache(triton):
    for _ in range(2):
        assert triton.infer("cached", text_input=("BYTES", ["cache me"])) == {"text_output": ["me cache"]}
    _, body = triton.ask("GET", "/v2/models/cached/stats")
    assert json.loads(body)["model_stats"][0]["inference_stats"]["cache_hit"]["count"] >= 1


def test_clients_cannot_load_or_unload_a_model(triton):
    for verb in ("load", "unload"):
        assert triton.ask("POST", f"/v2/repository/models/whole/{verb}", {})[0] == 503
    assert triton.ask("GET", "/v2/models/whole/ready")[0] == 200


def test_metrics_answer_on_their_own_port(triton):
    status, body = triton.ask("GET", "/metrics", port=triton.spec.ports.metrics)
    assert status == 200
    assert b"nv_inference_request_success" in body


def test_the_version_that_is_written_is_the_one_that_is_served(triton):
    for model, version in (("whole", "1"), ("cached", "3"), ("pieces", "1")):
        assert json.loads(triton.ask("GET", f"/v2/models/{model}")[1])["versions"] == [version]


def test_quantiles_of_latencies_are_there_when_they_are_asked_for(triton):
    assert triton.infer("whole", text_input=("BYTES", ["a"]))
    assert b'nv_inference_request_summary_us{model="whole"' in triton.ask("GET", "/metrics", port=triton.spec.ports.metrics)[1]


def test_a_fault_inside_an_ensemble_that_streams_does_not_keep_the_server_from_ending(tritonserver, tmp_path):
    text = {"dataType": "TYPE_STRING", "dims": [1]}
    relay = {"kind": "ensemble", "maxBatchSize": 8, "input": {"text_input": text}, "output": {"text_output": text}}
    step = {"modelName": "pieces", "inputMap": {"text_input": "text_input"}, "outputMap": {"text_output": "text_output"}}
    pieces = {**GENERATION, "generator": GENERATOR, "streaming": True}
    spec = spec_of({"pieces": pieces, "relay": {**relay, "steps": [step]}})
    with running(tritonserver, spec, generated(spec, tmp_path), tmp_path / "repository") as server:
        status, body = server.ask("POST", "/v2/models/relay/generate", {"text_input": "fail"})
        assert (status, json.loads(body)["error"]) == (400, "in ensemble 'relay', the generator failed")
        server.process.send_signal(signal.SIGTERM)
        server.process.communicate(timeout=30)
        assert server.process.returncode == 0


def test_a_stopped_server_finishes_the_stream_that_runs(tritonserver, tmp_path):
    spec = spec_of({"pieces": {**GENERATION, "generatorFile": "generator.py", "streaming": True}}, drainSeconds=30)
    own = tmp_path / "weights"
    own.mkdir()
    (own / "generator.py").write_text(GENERATOR)
    with running(tritonserver, spec, generated(spec, own), tmp_path / "repository") as server:
        events: list = []
        caller = threading.Thread(target=lambda: events.extend(server.stream("pieces", text_input="wait", stream=True)))
        caller.start()
        server.await_file(own / "waiting")
        server.process.send_signal(signal.SIGTERM)
        (own / "go").touch()
        caller.join(timeout=60)
        assert [each["text_output"] for each in events] == ["wait"]
