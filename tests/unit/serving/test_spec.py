from __future__ import annotations

import pytest
from pydantic import ValidationError

from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.components.serving.vllm.engine_args import VLLM_OPTIONS
from inferplan.components.serving.vllm.reserved_options import _meant, _reserved
from tests.unit.serving.models import vllm
from tests.unit.serving.vllm_flags import FLAGS


def faults(**fields) -> str:
    with pytest.raises(ValidationError) as refused:
        vllm(**fields)
    return "\n".join(fault["msg"] for fault in refused.value.errors())


def test_the_parallel_sizes_multiply_to_the_accelerators():
    assert "= 4, but accelerators is 8" in faults(
        tensorParallelSize=2, pipelineParallelSize=2, accelerators=8
    )
    assert vllm(tensorParallelSize=2, pipelineParallelSize=2).accelerators_per_pod == 4


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai",
        "vllm/vllm-openai:latest",
        "registry:5000/vllm",
        "vllm/vllm-openai:nightly",
    ],
)
def test_an_image_that_moves_is_refused_with_the_remedy(image):
    message = faults(image=image)
    assert image in message
    assert "fixed tag" in message


@pytest.mark.parametrize(
    "image", ["vllm/vllm-openai:v0.33.0", "registry:5000/vllm@sha256:" + "0" * 64]
)
def test_an_image_that_stays_is_taken(image):
    assert vllm(image=image).image == image


@pytest.mark.parametrize(
    "spelling", [each for spellings in VLLM_OPTIONS.values() for each in spellings]
)
def test_extra_args_cannot_repeat_a_typed_field_in_any_spelling(spelling):
    assert "use the field" in faults(extraArgs=[f"{spelling}=1"])


@pytest.mark.parametrize(
    "argument",
    [
        "--api-key=x",
        "--port",
        "--host=0.0.0.0",
        "--trust-remote-code",
        "--max_model_len=5",
        "--grpc",
    ],
)
def test_extra_args_cannot_open_the_server_or_contradict_its_probes(argument):
    assert "is not allowed in extraArgs" in faults(extraArgs=[argument])


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("--trust-remote", "--trust-remote-code: it runs code"),
        ("--api-k=x", "--api-key: inferplan sets it"),
        ("--tensor_parallel_siz=2", "--tensor-parallel-size: use the field tensorParallelSize"),
        ("-n2", "-n: use the field nnodes"),
        ("-t", "-tp: use the field tensorParallelSize"),
        (
            "--data-parallel-size-local=2",
            (
                "--data-parallel-size: a replica is one engine on its own accelerators; raise"
                " replicas instead"
            ),
        ),
        (
            "-dpl",
            (
                "--data-parallel-size: a replica is one engine on its own accelerators; raise"
                " replicas instead"
            ),
        ),
        ("-qfp8", "-q: use the field quantization"),
    ],
)
def test_an_option_cut_short_as_vllms_parser_takes_it_is_known_for_what_it_is(argument, meant):
    assert f"which is {meant}" in faults(extraArgs=[argument])


def test_a_token_that_would_stand_in_the_plan_is_refused():
    assert "a secret has no place here" in faults(extraArgs=["--hf-token=hf_x"])


def test_no_option_of_vllm_is_mistaken_for_a_reserved_one_cut_short():
    reserved = _reserved()
    mistaken = [
        flag for flag in FLAGS if flag not in reserved and _meant(flag, reserved) is not None
    ]
    # All of that family would spread a replica over more cards than it has.
    assert [flag for flag in mistaken if not flag.startswith(("--data-parallel-", "-dp"))] == []


@pytest.mark.parametrize("name", ["HABANA_VISIBLE_DEVICES", "VLLM_API_KEY", "HOME"])
def test_a_reserved_environment_variable_is_refused_with_its_reason(name):
    assert name in faults(env={name: "x"})


@pytest.mark.parametrize("engine", ["vllm", "triton", "pytriton", "ray-serve"])
def test_every_engine_that_runs_vllm_reserves_the_variables_that_vllm_reads(engine):
    assert {"VLLM_API_KEY", "VLLM_PORT"} <= MODEL_SPECS[engine].reserved_env.keys()


def test_a_consumer_named_twice_is_refused():
    assert "chat is listed more than once" in faults(consumers=["chat", "batch", "chat"])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"maxLoraRank": 32}, "there are none"),
        ({"loraAdapters": {"a": "x"}, "servedModelName": "a"}, "Give the adapter another name"),
        ({"loraAdapters": {"a": "x"}, "extraArgs": ["--enable-lora"]}, "loraAdapters turns it on"),
    ],
)
def test_adapters_that_contradict_each_other_are_refused(fields, said):
    assert said in faults(**fields)
