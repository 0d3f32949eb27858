from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.benchmark.benchmark_job import BenchmarkInputs, BenchmarkJob, plan_of
from inferplan.components.benchmark.spec import BenchmarkSpec
from inferplan.components.handles import SecretRef
from inferplan.components.serving.triton.service import endpoint as triton_endpoint
from inferplan.components.serving.vllm.service import endpoint as vllm_endpoint
from tests.recorder import declare
from tests.unit.serving.models import BUCKET, GATEWAY, KEY, MOUNT, vllm
from tests.unit.serving.test_triton import triton
from tests.unit.stackfile.test_checks import (
    CONFIG,
    MODEL,
    lines,  # noqa: F401 - the fixture that judges a stack
    only,
)

WRITTEN = {"models": ["plain", "writer"], "consumer": "chat", "tokenizer": "plain"}


def benchmark(**written: Any) -> BenchmarkSpec:
    return BenchmarkSpec.model_validate({**WRITTEN, **written})


def made(spec: BenchmarkSpec, **ground: Any):
    endpoints = [vllm_endpoint("plain", vllm(), KEY), triton_endpoint("writer", triton(), KEY)]
    lent = BenchmarkInputs(
        tokenizer=MOUNT,
        key=SecretRef(name="consumer-chat", key="api-key"),
        gateway=GATEWAY,
        namespace="inference",
    )
    return declare(
        lambda: BenchmarkJob("benchmark", spec, replace(lent, **ground), endpoints=endpoints)
    )


def plan_in(recording) -> Any:
    [container] = recording.one("kubernetes:batch/v1:Job").inputs["spec"]["template"]["spec"][
        "containers"
    ]
    return json.loads(
        next(each["value"] for each in container["env"] if each["name"] == "BENCHMARK")
    )


def test_each_service_is_driven_through_the_gateway_by_a_protocol_that_it_speaks():
    plain, writer = plan_in(made(benchmark()))["services"]
    assert (plain["protocol"], plain["url"]) == ("openai", "http://gateway/plain")
    assert (writer["protocol"], writer["path"]) == (
        "triton-generate",
        "/writer/v2/models/writer/generate_stream",
    )
    import jinja2

    body = json.loads(jinja2.Template(writer["template"]).render(text='a "quote"', max_tokens=7))
    assert body == {"text_input": 'a "quote"', "max_tokens": 7}


def test_the_key_is_a_reference_the_only_edge_leads_to_the_gateway_and_no_card_is_held():
    recording = made(benchmark())
    job = recording.one("kubernetes:batch/v1:Job").inputs
    [container] = job["spec"]["template"]["spec"]["containers"]
    [key] = [each for each in container["env"] if each["name"] == "API_KEY"]
    assert key["valueFrom"]["secretKeyRef"] == {"name": "consumer-chat", "key": "api-key"}
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    edge = recording.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    [rule] = edge["egress"]
    assert rule["to"] == [{"podSelector": {"matchLabels": dict(GATEWAY)}}]
    assert [each["port"] for each in rule["ports"]] == [8080]
    assert edge["policyTypes"] == ["Egress"]
    assert job["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_another_load_is_another_job_and_the_same_one_is_the_same():
    def name(spec: BenchmarkSpec) -> str:
        return made(spec).one("kubernetes:batch/v1:Job").inputs["metadata"]["name"]

    assert name(benchmark()) == name(benchmark())
    assert name(benchmark()) != name(benchmark(concurrency=[1, 16]))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"models": ["one"]}, "at least 2"),
        ({"models": ["one", "one"]}, "Duplicate model: one"),
        (
            {"concurrency": [128], "requests": 64},
            r"concurrency \(128\) is more than requests \(64\)",
        ),
        (
            {"promptTokens": [1, 2, 3, 4, 5, 6, 7, 8], "concurrency": [1, 2, 3, 4, 5, 6, 7]},
            "112 measurements",
        ),
    ],
)
def test_a_comparison_that_says_nothing_or_never_ends_is_refused(written, said):
    with pytest.raises(ValidationError, match=said):
        benchmark(**written)


MODELS = {
    "plain": MODEL,
    "writer": {**MODEL, "consumers": []},
    "streamed": {**MODEL, "preheat": None},
}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            {},
            (
                "benchmark.models[1]: Consumer chat may not call writer. Add chat to"
                " models.writer.consumers."
            ),
        ),
        ({"models": ["plain", "strem"]}, "benchmark.models[1]: Unknown model 'strem'."),
        (
            {"models": ["plain", "streamed"], "consumer": "chatt"},
            "benchmark.consumer: Unknown consumer 'chatt'. Did you mean 'chat'?",
        ),
        (
            {"models": ["plain", "streamed"], "tokenizer": "streamed"},
            "are in a bucket, but the tokenizer must be on a volume. Use a model with preheat.",
        ),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused_with_the_place(lines, written, said):  # noqa: F811 - the fixture
    models = {
        name: {key: value for key, value in model.items() if value is not None}
        for name, model in MODELS.items()
    }
    fault = only(lines(models=models, benchmark={**WRITTEN, **written}))
    assert said in fault


TEXT = {"dataType": "TYPE_STRING", "dims": [1]}


def python_model(**inputs: Any) -> dict[str, Any]:
    return {
        "kind": "python",
        "code": "pass",
        "maxBatchSize": 4,
        "input": {"text_input": TEXT, **inputs},
        "output": {"text_output": TEXT},
    }


UINT32 = {"dataType": "TYPE_UINT32", "dims": [1]}
ENSEMBLE = {
    "kind": "ensemble", "maxBatchSize": 4, "output": {"text_output": TEXT},
    "input": {"text_input": TEXT, "max_tokens": {"dataType": "TYPE_INT32", "dims": [1]}},
    "steps": [{
        "modelName": "step", "inputMap": {"text_input": "text_input", "max_tokens": "max_tokens"}, "outputMap": {"text_output": "text_output"},
    }],
}  # fmt: skip
STEP = python_model(max_tokens={"dataType": "TYPE_INT32", "dims": [1]})


def test_an_ensemble_and_a_python_model_of_one_server_are_compared_and_may_require_max_tokens():
    served = triton({"ensemble": ENSEMBLE, "step": STEP, "python": python_model(max_tokens=UINT32)})
    compared = benchmark(models=["llm/ensemble", "llm/python"])
    services = plan_of(compared, {"llm": triton_endpoint("llm", served, KEY)})["services"]
    assert [(each["model"], each["served"]) for each in services] == [
        ("llm/ensemble", "ensemble"),
        ("llm/python", "python"),
    ]
    assert [each["path"] for each in services] == [
        f"/llm/v2/models/{each}/generate_stream" for each in ("ensemble", "python")
    ]
    assert all("max_tokens" in each["template"] for each in services)


@pytest.mark.parametrize(
    ("repository", "names", "said"),
    [
        (
            {"vit": python_model(image={"dataType": "TYPE_FP32", "dims": [3, 224, 224]})},
            ["plain", "llm"],
            "vit requires image (TYPE_FP32)",
        ),
        (
            {"vit": python_model(context=TEXT)},
            ["plain", "llm"],
            "vit requires 2 TYPE_STRING inputs: context, text_input",
        ),
        (
            {"vit": python_model(max_tokens={"dataType": "TYPE_FP32", "dims": [1]})},
            ["plain", "llm"],
            "vit requires max_tokens (TYPE_FP32)",
        ),
        (
            {"one": python_model(), "two": python_model(seed=UINT32)},
            ["llm/one", "llm/two"],
            "llm/two does not take prompts: two requires seed",
        ),
    ],
)
def test_a_model_that_cannot_be_called_is_rejected_with_the_inputs_in_the_way(
    lines,  # noqa: F811 - the fixture
    repository,
    names,
    said,
):
    server = {
        "engine": "triton",
        "repository": repository,
        "pool": MODEL["pool"],
        "consumers": ["chat"],
    }
    error = only(
        lines(models={"plain": MODEL, "llm": server}, benchmark={**WRITTEN, "models": names})
    )
    assert said in error
    assert "Make other inputs optional, or use another model." in error


def test_without_a_claim_the_component_itself_says_what_to_name():
    with pytest.raises(
        Exception, match=r"benchmark\.tokenizer: the files of plain are not in a claim"
    ):
        made(benchmark(), tokenizer=BUCKET)


def test_an_empty_structure_says_that_there_is_none(lines):  # noqa: F811 - the fixture
    assert lines(benchmark={}) == ()
    assert CONFIG
