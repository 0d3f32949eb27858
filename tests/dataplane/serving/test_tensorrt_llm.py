"""What surrounds TensorRT-LLM, on a real tritonserver: the ensemble and the BLS model, with a
stand-in for what needs cards.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from inferplan.components.serving.tensorrt_llm.models import payload
from tests.dataplane.serving.tensorrt_llm_stand import (
    ECHO,
    generated,
    ranks,
    spec_of,
    tokenizer,
    with_backend,
)
from tests.dataplane.serving.triton_stand import running
from tests.patience import PATIENCE_SECONDS

ENGINES = {"build": {"modelFamily": "llama"}, "maxBatchSize": 4, "maxTokens": 6}


@pytest.fixture(scope="module")
def backend(tritonserver, tmp_path_factory):
    return with_backend(
        tritonserver, "tensorrtllm", ECHO, tmp_path_factory.mktemp("echo") / "backends"
    )


@pytest.fixture(scope="module")
def weights(tritonserver, tmp_path_factory):
    directory = tmp_path_factory.mktemp("weights")
    tokenizer(tritonserver.environment, directory)
    return directory


@pytest.fixture(scope="module")
def engines(backend, weights, tmp_path_factory):
    spec = spec_of(**ENGINES)
    with running(
        backend, spec, generated(spec, weights), tmp_path_factory.mktemp("engines")
    ) as server:
        yield server


@pytest.fixture(scope="module")
def whole(backend, weights, tmp_path_factory):
    spec = spec_of(**ENGINES, streaming=False)
    with running(
        backend, spec, generated(spec, weights), tmp_path_factory.mktemp("whole")
    ) as server:
        yield server


def generate(server, model, **fields):
    status, body = server.ask("POST", f"/v2/models/{model}/generate", fields)
    return status, json.loads(body)


@pytest.mark.parametrize("model", ["ensemble", "tensorrt_llm_bls"])
def test_a_prompt_goes_through_tokens_and_comes_back_as_text(engines, model):
    status, answer = generate(engines, model, text_input="hello world", max_tokens=5)
    assert (status, answer["text_output"]) == (200, "hello")


@pytest.mark.full
@pytest.mark.parametrize("model", ["ensemble", "tensorrt_llm_bls"])
def test_a_model_that_does_not_stream_answers_the_same(whole, model):
    status, answer = generate(whole, model, text_input="hello world", max_tokens=5)
    assert (status, answer["text_output"]) == (200, "hello")


@pytest.mark.parametrize("model", ["ensemble", "tensorrt_llm_bls"])
def test_without_a_limit_the_default_number_of_tokens_holds(engines, model):
    assert generate(engines, model, text_input="abcdefghij")[1]["text_output"] == "abcdef"


@pytest.mark.parametrize("model", ["ensemble", "tensorrt_llm_bls"])
def test_stop_words_reach_the_engine_in_its_layout(engines, model):
    answer = generate(
        engines, model, text_input="one two three", max_tokens=13, stop_words=["xyz", "two"]
    )[1]
    assert answer["text_output"] == "one two"


@pytest.mark.parametrize("model", ["ensemble", "tensorrt_llm_bls"])
@pytest.mark.parametrize(
    ("fields", "said"), [({"max_tokens": 0}, "write 1 to"), ({"temperature": 99.0}, "too hot")]
)
def test_a_fault_of_a_step_is_the_answer_of_that_request_and_the_models_stay(
    engines, model, fields, said
):
    status, answer = generate(engines, model, **{"text_input": "a", **fields})
    assert status == 400
    assert said in answer["error"]
    assert generate(engines, model, text_input="a")[0] == 200


def test_a_stream_comes_token_by_token(engines):
    for model in ("ensemble", "tensorrt_llm_bls"):
        pieces = [
            each["text_output"] for each in engines.stream(model, text_input="abc", stream=True)
        ]
        assert pieces == ["a", "b", "c"]


def test_the_bls_model_never_sends_half_a_character(engines):
    pieces = [
        each["text_output"]
        for each in engines.stream(
            "tensorrt_llm_bls", text_input="naïve €", stream=True, max_tokens=20
        )
    ]
    assert "".join(pieces) == "naïve €"
    assert "�" not in "".join(pieces)
    assert any(
        "�" in each["text_output"]
        for each in engines.stream("ensemble", text_input="naïve €", stream=True, max_tokens=20)
    )


def test_a_batch_is_for_the_ensemble_and_the_bls_model_says_so(engines):
    inputs = [{"name": "text_input", "datatype": "BYTES", "shape": [2, 1], "data": ["a", "b"]}]
    status, body = engines.ask("POST", "/v2/models/tensorrt_llm_bls/infer", {"inputs": inputs})
    assert status != 200 or b"more than one prompt" in body


@pytest.mark.full
def test_two_ranks_under_mpirun_load_the_engine_each_and_drain_when_they_are_told_to_end(
    backend, weights, tmp_path
):
    spec = spec_of(**ENGINES, tensorParallelSize=2, drainSeconds=200)
    with ranks(
        backend, spec, generated(spec, weights), tmp_path / "repository", key="sesame"
    ) as server:
        loaded = [(weights / "engines" / rank).read_text() for rank in ("rank0", "rank1")]
        assert len(set(loaded)) == 2
        body = {"text_input": "hello world", "max_tokens": 5, "stream": True}
        assert server.ask("POST", "/v2/models/ensemble/generate_stream", body)[0] == 403
        named = replace(server, headers={"Authorization": "Bearer sesame"})
        events: list = []
        caller = threading.Thread(
            target=lambda: events.extend(named.stream("tensorrt_llm_bls", **body, temperature=42.0))
        )
        caller.start()
        server.await_file(weights / "engines" / "waiting")
        server.process.send_signal(signal.SIGTERM)
        (weights / "engines" / "go").touch()
        caller.join(timeout=PATIENCE_SECONDS)
        assert "".join(each["text_output"] for each in events) == "hello"
        server.process.wait(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("kill -KILL $$", 137), ("exit 0", 0)]
)
def test_ranks_that_end_by_themselves_end_the_container_as_they_did(tmp_path, command, code):
    launcher = tmp_path / "ranks.py"
    launcher.write_text(payload("ranks.py"))
    assert (
        subprocess.run(
            [sys.executable, str(launcher), "sh", "-c", command],
            check=False,
            timeout=PATIENCE_SECONDS,
        ).returncode
        == code
    )
