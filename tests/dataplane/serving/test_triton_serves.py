"""What the component generates, a real tritonserver loads and serves: infer, generate, streams,
gRPC, and an end without lost answers.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.dataplane.serving.exposed import missing_metrics
from tests.dataplane.serving.triton_models import GENERATION, GENERATOR, SOUND, relay
from tests.dataplane.serving.triton_stand import generated, running, spec_of
from tests.patience import PATIENCE_SECONDS

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
        "whole": {
            **GENERATION,
            "generator": GENERATOR,
            "dynamicBatching": {"preferredBatchSize": [4]},
        },
        "pieces": {
            **GENERATION,
            "generatorFile": "generator.py",
            "streaming": True,
            "dynamicBatching": {},
        },
        "relay": relay("pieces"),
        **SOUND,
        "upper": {**upper, "file": "upper.py"},
    }
    spec = spec_of(repository, accelerators=2)
    with running(
        tritonserver, spec, generated(spec, weights), tmp_path_factory.mktemp("repository")
    ) as server:
        yield server


def grpc(triton, *calls):
    command = [
        str(triton.binary.environment.python),
        str(CLIENT),
        f"127.0.0.1:{triton.spec.ports.grpc}",
        json.dumps(calls),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_server_exposes_every_pinned_metric(triton):
    triton.infer("whole", text_input=("BYTES", ["a b"]))
    assert missing_metrics("triton", triton.spec.ports.metrics) == []


def test_every_public_model_is_ready_and_so_is_the_server(triton):
    assert triton.ask("GET", "/v2/health/ready")[0] == 200
    assert triton.spec.public == ("whole", "relay", "both")
    for model in triton.spec.repository:
        assert triton.ask("GET", f"/v2/models/{model}/ready")[0] == 200


def test_a_batch_is_answered_row_by_row(triton):
    assert triton.infer("whole", text_input=("BYTES", ["a b", "c d"])) == {
        "text_output": ["b a", "d c"]
    }


def test_the_default_and_the_requests_own_number_of_tokens_hold(triton):
    assert triton.infer("whole", text_input=("BYTES", ["a b c d e"]))["text_output"] == ["e d c"]
    assert triton.infer("whole", text_input=("BYTES", ["a b c d e"]), max_tokens=("INT32", [1]))[
        "text_output"
    ] == ["e"]


def test_the_generator_gets_its_weights_and_its_device(triton):
    assert triton.infer("whole", text_input=("BYTES", ["where"]))["text_output"] == ["hpu tiny"]


@pytest.mark.parametrize(
    ("prompt", "fields", "said"),
    [
        ("fail", {}, "the generator failed"),
        ("x", {"max_tokens": 0}, "write 1 to"),
        ("x", {"temperature": -1.0}, "temperature"),
    ],
)
def test_a_fault_is_the_answer_of_that_request_and_the_model_stays(triton, prompt, fields, said):
    for model in ("whole", "pieces"):
        status, body = triton.ask(
            "POST", f"/v2/models/{model}/generate", {"text_input": prompt, **fields}
        )
        assert status == 400
        assert said in json.loads(body)["error"]
    assert triton.infer("whole", text_input=("BYTES", ["a"]))["text_output"] == ["a"]


def test_a_stream_comes_in_pieces_and_without_being_asked_for_in_one(triton):
    assert [
        each["text_output"] for each in triton.stream("pieces", text_input="x y z", stream=True)
    ] == ["z", "y", "x"]
    assert [each["text_output"] for each in triton.stream("pieces", text_input="x y z")] == [
        "z y x"
    ]


def test_a_model_that_streams_answers_a_plain_request_once(triton):
    status, body = triton.ask("POST", "/v2/models/pieces/generate", {"text_input": "x y"})
    assert (status, json.loads(body)["text_output"]) == (200, "y x")


def test_an_ensemble_answers_through_its_steps_and_a_file_beside_the_weights(triton):
    assert triton.infer("both", said=("BYTES", ["four", "seventy"]))["size"] == [4, 7]


# Each model by the input of its prompt, the output of its answer, whether it answers in pieces, and
# what it says to "four".
EVERY = {
    "whole": ("text_input", "text_output", False, "four"),
    "pieces": ("text_input", "text_output", True, "four"),
    "relay": ("said", "answer", True, "four"),
    "both": ("said", "size", False, 4),
}


@pytest.mark.parametrize("model", EVERY)
def test_a_model_answers_by_generate_stream_and_by_infer_unless_it_answers_in_pieces(triton, model):
    prompt, answer, in_pieces, said = EVERY[model]
    assert [each[answer] for each in triton.stream(model, **{prompt: "four"})] == [said]
    inputs = [{"name": prompt, "datatype": "BYTES", "shape": [1, 1], "data": ["four"]}]
    status, body = triton.ask("POST", f"/v2/models/{model}/infer", {"inputs": inputs})
    if in_pieces:
        assert (status, b"decoupled" in body) == (501, True)
    else:
        assert [each["data"] for each in json.loads(body)["outputs"]] == [[said]]


def test_a_model_answers_by_grpcs_stream_and_by_its_infer_unless_it_answers_in_pieces(triton):
    asked = [
        [model, {prompt: ["BYTES", ["four"]]}, streamed]
        for model, (prompt, *_) in EVERY.items()
        for streamed in (True, False)
    ]
    answers = dict(
        zip([(model, streamed) for model, _, streamed in asked], grpc(triton, *asked), strict=True)
    )
    for model, (_, _, in_pieces, said) in EVERY.items():
        assert answers[model, True] == [[said]]
        assert answers[model, False] == [[said]] or (
            in_pieces and "decoupled" in answers[model, False]
        )


def test_grpc_carries_batches_pieces_and_faults(triton):
    answers = grpc(
        triton,
        ["whole", {"text_input": ["BYTES", ["g h", "i j"]]}, False],
        ["pieces", {"text_input": ["BYTES", ["x y z"]], "stream": ["BOOL", [True]]}, True],
        ["relay", {"said": ["BYTES", ["x y z"]], "stream": ["BOOL", [True]]}, True],
        ["whole", {"text_input": ["BYTES", ["fail"]]}, False],
    )
    assert answers[:3] == [[["h g", "j i"]], [["z"], ["y"], ["x"]], [["z"], ["y"], ["x"]]]
    assert "the generator failed" in answers[3]


def test_each_prompt_of_a_batch_has_its_own_number_of_tokens(triton):
    assert triton.infer(
        "whole", text_input=("BYTES", ["a b c", "d e f"]), max_tokens=("INT32", [1, 2])
    )["text_output"] == ["c", "f e"]


def test_clients_cannot_load_or_unload_a_model(triton):
    for verb in ("load", "unload"):
        assert triton.ask("POST", f"/v2/repository/models/whole/{verb}", {})[0] == 503
    assert triton.ask("GET", "/v2/models/whole/ready")[0] == 200


@pytest.mark.full
def test_a_fault_inside_an_ensemble_that_streams_does_not_keep_the_server_from_ending(
    tritonserver, tmp_path
):
    spec = spec_of(
        {
            "pieces": {**GENERATION, "generator": GENERATOR, "streaming": True},
            "relay": relay("pieces"),
        }
    )
    with running(tritonserver, spec, generated(spec, tmp_path), tmp_path / "repository") as server:
        status, body = server.ask("POST", "/v2/models/relay/generate", {"said": "fail"})
        assert (status, json.loads(body)["error"]) == (
            400,
            "in ensemble 'relay', the generator failed",
        )
        server.process.send_signal(signal.SIGTERM)
        server.process.communicate(timeout=PATIENCE_SECONDS)
        assert server.process.returncode == 0


def test_a_stopped_server_finishes_the_stream_that_runs(tritonserver, tmp_path):
    spec = spec_of(
        {"pieces": {**GENERATION, "generatorFile": "generator.py", "streaming": True}},
        drainSeconds=200,
    )
    own = tmp_path / "weights"
    own.mkdir()
    (own / "generator.py").write_text(GENERATOR)
    with running(tritonserver, spec, generated(spec, own), tmp_path / "repository") as server:
        events: list = []
        caller = threading.Thread(
            target=lambda: events.extend(server.stream("pieces", text_input="wait", stream=True))
        )
        caller.start()
        server.await_file(own / "waiting")
        server.process.send_signal(signal.SIGTERM)
        (own / "go").touch()
        caller.join(timeout=PATIENCE_SECONDS)
        assert [each["text_output"] for each in events] == ["wait"]
