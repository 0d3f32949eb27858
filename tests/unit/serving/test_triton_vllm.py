"""Triton's vllm backend, as far as it goes without the backend: what is written, and what is
refused.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inferplan.components.serving.triton.builds import fault_of, in_build
from inferplan.components.serving.triton.messages import config_of
from inferplan.components.serving.triton.repository import repository_files
from inferplan.components.serving.triton.service import endpoint
from inferplan.components.serving.triton.spec import TritonSpec
from inferplan.components.serving.vllm.engine_args import VLLM_OPTIONS
from tests.unit.serving.models import GAUDI2, KEY, L40S, container_of, pool
from tests.unit.serving.test_triton import triton

T4 = pool("nvidia-t4")


def served(**fields: Any) -> TritonSpec:
    return triton({"writer": {"kind": "vllm", **fields}})


def files_of(spec: TritonSpec, target=L40S) -> dict[str, str]:
    return repository_files(spec, weights="/models/chat", target=target)


def faults(*args: Any, **fields: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        triton(*args, **fields) if args else served(**fields)
    return "\n".join(fault["msg"] for fault in refused.value.errors())


def test_the_configuration_is_a_decoupled_model_that_takes_its_cards_itself():
    config = config_of(files_of(served())["writer/config.pbtxt"])
    [group] = config.instance_group
    assert (config.backend, config.max_batch_size, config.model_transaction_policy.decoupled) == (
        "vllm",
        0,
        True,
    )
    assert (group.kind, group.count) == (group.KIND_MODEL, 1)
    assert [each.name for each in config.input if not each.optional] == ["text_input"]
    assert "text_output" in [each.name for each in config.output]


def test_model_json_holds_the_engines_arguments_and_nothing_that_was_not_said():
    settings = json.loads(
        files_of(served(tensorParallelSize=2, maxModelLen=8192, engineArgs={"seed": 7}))[
            "writer/1/model.json"
        ]
    )
    assert settings == {
        "model": "/models/chat",
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "max_model_len": 8192,
        "disable_log_stats": True,
        "seed": 7,
    }


def test_vllms_automatic_context_length_is_spelled_as_its_engine_spells_it():
    assert (
        json.loads(files_of(served(maxModelLen="auto"))["writer/1/model.json"])["max_model_len"]
        == -1
    )


def test_cards_without_bfloat16_get_half_precision():
    assert json.loads(files_of(served(), T4)["writer/1/model.json"])["dtype"] == "half"
    assert "dtype" not in json.loads(files_of(served())["writer/1/model.json"])


def test_adapters_are_listed_where_the_backend_looks_for_them():
    files = files_of(served(loraAdapters={"poet": "adapters/poet"}, maxLoraRank=16))
    assert json.loads(files["writer/1/multi_lora.json"]) == {"poet": "/models/chat/adapters/poet"}
    assert json.loads(files["writer/1/model.json"])["enable_lora"] is True


def test_vllms_metrics_and_health_are_asked_for_by_parameter():
    parameters = config_of(
        files_of(served(reportMetrics=True, healthCheck=True))["writer/config.pbtxt"]
    ).parameters
    assert {key: each.string_value for key, each in parameters.items()} == {
        "REPORT_CUSTOM_METRICS": "true",
        "ENABLE_VLLM_HEALTH_CHECK": "true",
    }


@pytest.mark.parametrize(
    "name", [*VLLM_OPTIONS, "model", "hf_token", "trust_remote_code", "enable_lora"]
)
def test_engine_args_cannot_repeat_a_field_or_what_is_decided_elsewhere(name):
    assert "is not allowed in engineArgs" in faults(engineArgs={name: 1})


def test_triton_does_not_batch_for_vllm():
    assert "Input should be 0" in faults(maxBatchSize=8)


def test_a_replica_has_as_many_cards_as_the_engine_spans():
    assert served(tensorParallelSize=2, pipelineParallelSize=2).accelerators_per_pod == 4
    assert "writer spans 4 accelerators" in faults(
        {"writer": {"kind": "vllm", "tensorParallelSize": 4}}, accelerators=2
    )
    assert "no model uses that many" in faults({"writer": {"kind": "vllm"}}, accelerators=2)


def test_two_engines_on_the_first_card_have_to_divide_its_memory():
    two: dict[str, dict[str, Any]] = {
        "one": {"kind": "vllm"},
        "two": {"kind": "vllm", "gpuMemoryUtilization": 0.3},
    }
    assert "claim one 0.92, two 0.3 of it" in faults(two)
    two["one"]["gpuMemoryUtilization"] = 0.6
    assert triton(two).accelerators_per_pod == 1


def test_on_gaudi_the_backend_is_refused_with_the_reason():
    [fault] = served().errors_on(GAUDI2)
    assert fault.path == ("repository", "writer", "kind")
    assert "use engine: vllm" in fault.message


def test_the_build_that_holds_the_backend_is_taken_and_another_one_refused():
    assert container_of(served())["image"] == "nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3"
    [fault] = triton(
        {"writer": {"kind": "vllm"}}, image="nvcr.io/nvidia/tritonserver:26.07-py3"
    ).errors_on(L40S)
    assert "Name nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3" in fault.message
    assert (
        list(
            triton({"writer": {"kind": "vllm"}}, image="docker.io/acme/triton:1.0").errors_on(L40S)
        )
        == []
    )


def test_an_image_that_is_too_old_is_refused_with_what_it_holds():
    fault = fault_of(
        "nvcr.io/nvidia/tritonserver:25.03-trtllm-python-py3", "tensorrt-llm", since="25.05"
    )
    assert fault is not None
    assert "which holds tensorrt-llm 0.18.0" in fault


def test_clients_learn_the_tensors_of_a_prompt_and_its_answer():
    [text] = served().texts
    assert (text.model, text.input, text.output, text.stream) == (
        "writer",
        "text_input",
        "text_output",
        "stream",
    )


ARGS = st.fixed_dictionaries(
    {},
    optional={
        "tensorParallelSize": st.integers(1, 8),
        "pipelineParallelSize": st.integers(1, 4),
        "maxModelLen": st.integers(1, 10**6) | st.just("auto"),
        "maxNumSeqs": st.integers(1, 512),
        "gpuMemoryUtilization": st.floats(0.01, 1),
        "dtype": st.sampled_from(["auto", "bfloat16", "float16", "half"]),
        "enablePrefixCaching": st.booleans(),
        "engineArgs": st.dictionaries(
            st.sampled_from(["seed", "enforce_eager", "swap_space", "guided"]),
            st.booleans() | st.integers(),
        ),
    },
)


@given(ARGS)
def test_whatever_is_said_reaches_the_engine_once_and_the_same_way_each_time(fields):
    spec = served(**fields)
    files = files_of(spec)
    settings = json.loads(files["writer/1/model.json"])
    assert files == files_of(spec)
    assert (
        settings["tensor_parallel_size"] * settings["pipeline_parallel_size"]
        == spec.accelerators_per_pod
    )
    assert config_of(files["writer/config.pbtxt"]).name == "writer"
    assert fields.get("engineArgs", {}).items() <= settings.items()


def test_only_nvidias_images_change_their_build():
    assert (
        in_build("nvcr.io/nvidia/tritonserver:26.07-py3", "tensorrt-llm")
        == "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3"
    )
    assert in_build("docker.io/acme/triton:1.0", "vllm") == "docker.io/acme/triton:1.0"


def test_an_answer_is_bounded_by_an_input_where_there_is_one_and_by_a_parameter_for_vllm():
    assert served().texts[0].tokens is None
    assert triton({"writer": {"kind": "textGeneration"}}).texts[0].tokens == "max_tokens"


# Options of python/openai/openai_frontend/main.py of triton-inference-server/server, v2.71.0.
FRONTEND_OPTIONS = {
    *(
        "--model-repository",
        "--tokenizer",
        "--backend",
        "--lora-separator",
        "--tritonserver-log-verbose-level",
        "--host",
    ),
    *(
        "--tool-call-parser",
        "--max-tool-call-parse-bytes",
        "--chat-template",
        "--default-max-tokens",
        "--model-control-mode",
    ),
    *(
        "--load-model",
        "--openai-port",
        "--uvicorn-log-level",
        "--openai-restricted-api",
        "--http-max-input-size",
    ),
    *("--enable-kserve-frontends", "--kserve-http-port", "--kserve-grpc-port"),
}


def test_the_openai_frontend_runs_the_server_and_asks_for_the_key_of_every_inference():
    spec = triton(
        {"writer": {"kind": "vllm", "loraAdapters": {"polite": "adapters/polite"}}},
        frontend="openai",
    )
    container = container_of(spec)
    assert container["command"] == ["python3"]
    script, *options = container["args"]
    assert script == "/opt/tritonserver/python/openai/openai_frontend/main.py"
    assert {each.partition("=")[0] for each in options if each.startswith("--")} <= FRONTEND_OPTIONS
    assert options[-4:] == [
        "--openai-restricted-api",
        "inference,model-repository",
        "authorization",
        "Bearer $(SERVER_KEY)",
    ]
    assert "--tokenizer=/models/chat" in options
    made = endpoint("chat", spec, KEY)
    assert [(each.kind, each.port, each.path) for each in made.protocols] == [
        ("openai", 8000, "/v1")
    ]
    assert made.served_names == ("writer", "writer_lora_polite")
    assert [each["containerPort"] for each in container["ports"]] == [8000]
    assert container["readinessProbe"]["httpGet"]["path"] == made.health_path == "/health/ready"


def test_the_openai_frontend_is_refused_for_models_that_it_does_not_know():
    repository = {"writer": {"kind": "vllm"}, "text": {"kind": "textGeneration"}}
    assert "text is not of kind vllm" in faults(repository, frontend="openai")
