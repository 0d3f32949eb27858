"""TensorRT-LLM, as far as it goes without a card: what is written, what is declared, and what is
refused.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from inferplan.components.serving.tensorrt_llm.models import models, repository_files
from inferplan.components.serving.tensorrt_llm.service import (
    command,
    endpoint,
    llm_settings,
    server,
)
from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.components.serving.triton import ensemble
from inferplan.components.serving.triton.messages import config_of
from tests.unit.serving.models import BUCKET, GAUDI2, KEY, L40S, container_of, pool, site

BUILD = {"modelFamily": "llama"}
IMAGE = "nvcr.io/nvidia/tritonserver:26.06-trtllm-python-py3"
# Options of `trtllm-serve serve`: tensorrt_llm/commands/serve.py of NVIDIA/TensorRT-LLM, 1.2.
SERVE_OPTIONS = {
    *(
        "--tokenizer",
        "--host",
        "--port",
        "--backend",
        "--log_level",
        "--max_beam_width",
        "--max_batch_size",
        "--max_num_tokens",
    ),
    *(
        "--max_seq_len",
        "--tp_size",
        "--pp_size",
        "--ep_size",
        "--cluster_size",
        "--gpus_per_node",
        "--kv_cache_free_gpu_memory_fraction",
    ),
    *(
        "--num_postprocess_workers",
        "--trust_remote_code",
        "--extra_llm_api_options",
        "--reasoning_parser",
        "--tool_parser",
    ),
}


def trt(**fields: Any) -> TensorrtLlmSpec:
    base = {
        "engine": "tensorrt-llm",
        "weights": {"store": "w", "path": "llm/llama"},
        "preheat": {"into": "shared"},
        "pool": "p",
    }
    return TensorrtLlmSpec.model_validate({**base, **fields})


def engines(**fields: Any) -> TensorrtLlmSpec:
    return trt(**{"build": BUILD, "image": IMAGE, **fields})


def faults(**fields: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        trt(**fields)
    return "\n".join(fault["msg"] for fault in refused.value.errors())


def files_of(spec: TensorrtLlmSpec) -> dict[str, str]:
    return repository_files(spec, weights="/models/chat", engines="/engines/chat", target=L40S)


def test_trtllm_serve_reads_the_weights_and_answers_under_the_models_name():
    spec = trt(tensorParallelSize=2, maxSeqLen=8192, maxNumTokens=4096)
    container = container_of(spec)
    assert container["image"] == "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
    assert container["command"] == ["trtllm-serve", "serve"]
    # The server calls a model that is a directory by the directory's name (OpenAIServer.__init__).
    model, *options = container["args"]
    assert (model, endpoint("chat", spec, KEY).served_names) == ("/models/chat", ("chat",))
    assert {option.partition("=")[0] for option in options} <= SERVE_OPTIONS
    assert {
        "--tp_size=2",
        "--pp_size=1",
        "--max_seq_len=8192",
        "--max_num_tokens=4096",
        "--host=0.0.0.0",
    } <= set(options)
    assert {each["mountPath"] for each in container["volumeMounts"]} >= {
        "/models/chat",
        "/settings",
    }


def test_further_arguments_and_the_metrics_of_prometheus_are_asked_for_in_its_file():
    spec = trt(
        dtype="bfloat16",
        kvCacheFreeGpuMemFraction=0.8,
        llmArgs={"kv_cache_config": {"enable_block_reuse": True}},
    )
    assert json.loads(llm_settings(spec)) == {
        "dtype": "bfloat16",
        "kv_cache_config": {"enable_block_reuse": True, "free_gpu_memory_fraction": 0.8},
        "return_perf_metrics": True,
    }
    assert endpoint("chat", spec, KEY).metrics_path == "/prometheus/metrics"


def test_clients_speak_openais_protocol_to_it_and_the_server_knows_no_key():
    made = endpoint("chat", trt(consumers=["team"]), KEY)
    assert [(each.kind, each.port, each.path) for each in made.protocols] == [
        ("openai", 8000, "/v1")
    ]
    assert (made.server_key, made.texts, made.consumers) == (None, (), ("team",))


def test_engines_are_served_by_the_five_models_of_nvidias_templates_and_they_hold_together():
    spec = engines(tensorParallelSize=2)
    made = models(spec, weights="/w", engines="/e")
    assert list(made) == [
        "preprocessing",
        "tensorrt_llm",
        "postprocessing",
        "ensemble",
        "tensorrt_llm_bls",
    ]
    assert list(ensemble.faults(made)) == []


def test_the_engines_model_is_told_where_they_are_and_nothing_is_left_to_fill_in():
    files = files_of(
        engines(
            kvCacheFreeGpuMemFraction=0.5,
            maxBatchSize=8,
            parameters={"enable_kv_cache_reuse": "true"},
        )
    )
    config = config_of(files["tensorrt_llm/config.pbtxt"])
    parameters = {key: each.string_value for key, each in config.parameters.items()}
    assert (
        config.backend,
        config.max_batch_size,
        list(config.dynamic_batching.preferred_batch_size),
    ) == ("tensorrtllm", 8, [8])
    assert parameters["gpt_model_path"] == "/engines/chat"
    assert parameters["gpt_model_type"] == "inflight_fused_batching"
    assert parameters["kv_cache_free_gpu_mem_fraction"] == "0.5"
    assert parameters["enable_kv_cache_reuse"] == "true"
    assert not any("${" in text for text in files.values())


def test_one_value_a_request_is_handed_to_the_engine_without_its_axis_and_lists_may_be_ragged():
    inputs = {
        each.name: each
        for each in config_of(files_of(engines())["tensorrt_llm/config.pbtxt"]).input
    }
    assert inputs["request_output_len"].HasField("reshape")
    assert list(inputs["request_output_len"].reshape.shape) == []
    assert inputs["input_ids"].allow_ragged_batch
    assert inputs["stop_words_list"].allow_ragged_batch


def test_streaming_and_not_streaming_is_the_same_for_every_model_that_answers():
    for streaming in (True, False):
        files = files_of(engines(streaming=streaming))
        decoupled = [
            config_of(files[f"{name}/config.pbtxt"]).model_transaction_policy.decoupled
            for name in ("tensorrt_llm", "tensorrt_llm_bls")
        ]
        assert decoupled == [streaming, streaming]


def test_nobody_can_ask_for_pieces_of_a_model_that_answers_once():
    for streaming in (True, False):
        spec = trt(streaming=streaming, build=BUILD)
        made = models(spec, weights="/w", engines="/e")
        assert list(ensemble.faults(made)) == []
        assert {
            "stream" in made[name].inputs for name in endpoint("chat", spec, KEY).served_names
        } == {streaming}
        assert {text.stream for text in endpoint("chat", spec, KEY).texts} == {
            "stream" if streaming else None
        }


def test_one_rank_runs_without_mpi_and_several_have_a_server_each():
    assert command(engines(), key="k")[0] == "tritonserver"
    whole = command(engines(tensorParallelSize=2, pipelineParallelSize=2), key="k")
    assert whole[:7] == ["python3", "/launch/ranks.py", "mpirun", "--bind-to", "none", "-n", "1"]
    ranks = " ".join(whole).split(" : ")
    assert len(ranks) == 4
    assert "--model-control-mode=none" in ranks[0]
    assert all(
        "--model-control-mode=explicit --load-model=tensorrt_llm" in rank
        and "--allow-http=false" in rank
        for rank in ranks[1:]
    )
    assert len({rank.rpartition(" ")[2] for rank in ranks}) == 4


def test_only_the_first_rank_knows_the_key():
    ranks = " ".join(command(engines(tensorParallelSize=2), key="$(SERVER_KEY)")).split(" : ")
    assert "$(SERVER_KEY)" in ranks[0]
    assert "$(SERVER_KEY)" not in ranks[1]


def test_what_starts_the_ranks_is_mounted_beside_the_repository_and_not_in_it():
    mounts = {
        each["mountPath"]: each.get("subPath")
        for each in container_of(engines(tensorParallelSize=2))["volumeMounts"]
    }
    assert mounts["/launch"] == "launch"
    assert "/launch" not in {each["mountPath"] for each in container_of(engines())["volumeMounts"]}
    assert sorted(path for path in mounts if path.startswith("/repository")) == [
        f"/repository/{name}"
        for name in (
            "ensemble",
            "postprocessing",
            "preprocessing",
            "tensorrt_llm",
            "tensorrt_llm_bls",
        )
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tensorParallelSize": 2, "accelerators": 4}, "but accelerators is 4"),
        ({"build": BUILD, "llmArgs": {"x": 1}}, "llmArgs are arguments of trtllm-serve"),
        ({"maxQueueSize": 5}, "belongs to engines"),
        ({"streaming": False}, "streaming belongs to engines in Triton"),
        ({"ports": {"http": 9000}}, "ports belongs to engines in Triton"),
        ({"parameters": {"enable_kv_cache_reuse": "true"}}, "belongs to engines"),
        ({"build": BUILD, "preheat": None}, "it requires preheat"),
        (
            {"build": {**BUILD, "maxInputLen": 4096}, "maxSeqLen": 4096},
            "leaves no room for an answer",
        ),
        ({"build": {**BUILD, "buildArgs": ["--max_batch_size=3"]}}, "is not allowed in buildArgs"),
        ({"build": {**BUILD, "convertArgs": ["--tp_size=3"]}}, "is not allowed in convertArgs"),
        ({"build": {**BUILD, "buildArgs": ["gemm_plugin auto"]}}, "should match pattern"),
        (
            {"build": BUILD, "parameters": {"gpt_model_path": "/x"}},
            "is not a parameter of the backend",
        ),
        ({"llmArgs": {"trust_remote_code": True}}, "it runs code from the model repository"),
        ({"llmArgs": {"tensor_parallel_size": 2}}, "use the field tensorParallelSize"),
        ({"llmArgs": {"kv_cache_config": 5}}, "takes a mapping there"),
        (
            {"llmArgs": {"kv_cache_config": {"free_gpu_memory_fraction": 0.5}}},
            "use the field kvCacheFreeGpuMemFraction",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_reason(fields, said):
    assert said in faults(**fields)


def test_cards_that_tensorrt_llm_does_not_know_are_refused():
    [fault] = trt().errors_on(pool("nvidia-t4"))
    assert "needs compute capability 8.0 and nvidia-t4 has 7.5" in fault.message
    assert list(trt().errors_on(L40S)) == []


def test_on_gaudi_it_is_refused_by_the_table():
    assert GAUDI2.accelerator is not None
    assert "CUDA" in str(GAUDI2.accelerator.engine("tensorrt-llm").refusal)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"image": "nvcr.io/nvidia/tritonserver:26.07-py3"}, "holds no tensorrt-llm backend"),
        (
            {"image": "nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3"},
            "Name release 25.09 or newer",
        ),
        (
            {"image": "nvcr.io/nvidia/tritonserver:25.03-trtllm-python-py3", "build": BUILD},
            "Name release 25.05 or newer",
        ),
        (
            {"image": "nvcr.io/nvidia/tritonserver:26.10-trtllm-python-py3", "build": BUILD},
            f"Name {IMAGE}, or remove build",
        ),
        ({"image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.1", "build": BUILD}, "holds no Triton"),
        ({"build": {**BUILD, "cards": 8}}, "a node of pool 'p' has 4"),
    ],
)
def test_images_and_builds_that_do_not_fit_the_pool_are_refused(fields, said):
    [fault] = trt(**fields).errors_on(L40S)
    assert said in fault.message


def test_weights_in_a_bucket_are_refused():
    with pytest.raises(TypeError, match="Add preheat"):
        server("chat", trt(), site(weights=BUCKET), None)


def test_clients_are_told_the_models_and_their_tensors():
    built = endpoint("chat", engines(), KEY)
    assert built.served_names == ("tensorrt_llm_bls", "ensemble")
    assert [(each.model, each.input, each.output) for each in built.texts] == [
        ("tensorrt_llm_bls", "text_input", "text_output"),
        ("ensemble", "text_input", "text_output"),
    ]


@settings(max_examples=25)
@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 256), st.booleans())
def test_whatever_the_sizes_the_repository_holds_together_and_every_rank_is_started(
    tensor, pipeline, batch, streaming
):
    spec = engines(
        tensorParallelSize=tensor,
        pipelineParallelSize=pipeline,
        maxBatchSize=batch,
        streaming=streaming,
    )
    assert list(ensemble.faults(models(spec, weights="/w", engines="/e"))) == []
    assert files_of(spec) == files_of(spec)
    assert all(
        config_of(text).name
        for path, text in files_of(spec).items()
        if path.endswith("config.pbtxt")
    )
    assert (
        " ".join(command(spec, key="k")).count("tritonserver ")
        == tensor * pipeline
        == spec.accelerators_per_pod
    )


def test_without_an_image_engines_are_built_by_the_last_one_known_to_build_them():
    assert container_of(trt(build=BUILD))["image"] == IMAGE


@pytest.mark.parametrize("fields", [{}, {"build": BUILD, "image": IMAGE}], ids=["serve", "build"])
def test_triton_s_openai_frontend_is_rejected_and_trtllm_serve_named_instead(fields):
    assert "Remove frontend and build: trtllm-serve serves OpenAI's API" in faults(
        frontend="openai", **fields
    )
