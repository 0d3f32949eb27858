from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.serving.triton.messages import config_of
from inferplan.components.serving.triton.repository import repository_files
from inferplan.components.serving.triton.service import server, server_args
from inferplan.components.serving.triton.spec import TritonSpec
from tests.unit.serving.models import BUCKET, GAUDI2, L40S, container_of, declared, pool, site

WRITER = {"kind": "textGeneration", "maxBatchSize": 8}


def triton(repository: dict[str, Any] | None = None, **fields: Any) -> TritonSpec:
    given = {
        "engine": "triton",
        "weights": {"store": "w", "path": "llama"},
        "pool": "p",
        "repository": repository or {"writer": WRITER},
    }
    return TritonSpec.model_validate({**given, **fields})


def group_of(spec: TritonSpec, target):
    [group] = config_of(
        repository_files(spec, weights="/models/chat", target=target)["writer/config.pbtxt"]
    ).instance_group
    return group


def test_on_nvidia_an_instance_of_each_card_and_on_gaudi_a_process_for_each():
    spec = triton(accelerators=2)
    gpu, hpu = group_of(spec, L40S), group_of(spec, GAUDI2)
    assert (gpu.kind, gpu.count, list(gpu.gpus)) == (gpu.KIND_GPU, 1, [0, 1])
    assert (hpu.kind, hpu.count, list(hpu.gpus)) == (hpu.KIND_CPU, 2, [])


def test_more_instances_than_cards_are_refused_on_gaudi_and_uneven_ones_on_nvidia():
    two = {"writer": WRITER, "other": WRITER}
    [fault] = triton(two, accelerators=1).errors_on(GAUDI2)
    assert "2 instances for 1 accelerators. Set accelerators: 2" in fault.message
    [fault] = triton({"writer": {**WRITER, "instances": 3}}, accelerators=2).errors_on(L40S)
    assert "a multiple of 2" in fault.message
    assert list(triton(two, accelerators=1).errors_on(L40S)) == []


def test_each_model_is_mounted_by_itself_since_triton_would_take_kubelets_links_for_models():
    container = container_of(triton({"writer": WRITER, "other": WRITER}))
    mounts = {
        each["mountPath"]: each["subPath"]
        for each in container["volumeMounts"]
        if each["name"] == "files"
    }
    assert mounts == {"/repository/writer": "writer", "/repository/other": "other"}


def test_the_config_map_carries_every_file_to_its_path():
    made = declared(triton())
    data = made.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    volumes = made.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"][
        "volumes"
    ]
    [items] = [each["configMap"]["items"] for each in volumes if each["name"] == "files"]
    assert {each["key"] for each in items} == set(data)
    assert {each["path"] for each in items} == {
        "writer/config.pbtxt",
        "writer/1/model.py",
        "writer/1/generator.py",
    }


def test_the_build_that_has_torch_is_taken_where_the_shipped_generator_needs_it():
    assert container_of(triton())["image"].endswith("-vllm-python-py3")
    assert container_of(triton({"writer": {**WRITER, "generator": "class Generator: ..."}}))[
        "image"
    ].endswith("26.07-py3")


def test_a_build_without_the_library_that_generates_is_refused():
    plain, trtllm = (
        f"nvcr.io/nvidia/tritonserver:26.07-{build}" for build in ("py3", "trtllm-python-py3")
    )

    def said(image: str, **fields: Any) -> list[str]:
        return [
            fault.message
            for fault in triton({"writer": {**WRITER, **fields}}, image=image).errors_on(L40S)
        ]

    [fault] = said(plain)
    assert "holds no torch" in fault
    assert (
        said(trtllm)
        == said(plain, generator="class Generator: ...")
        == said("docker.io/acme/triton:1.0")
        == []
    )
    [fault] = said(trtllm, library="vllm")
    assert "Name nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3" in fault


def test_probes_ask_whether_models_are_ready_and_whether_the_process_is_alive():
    container = container_of(triton(ports={"http": 9000}))
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {
        "http": 9000,
        "grpc": 8001,
        "metrics": 8002,
    }


def test_models_are_loaded_once_and_by_nobody_else():
    assert "--model-control-mode=none" in server_args(triton())


def test_a_service_and_its_network_edge_open_the_ports_of_its_protocols():
    made = declared(triton())
    ports = {
        each["name"]: each["port"]
        for each in made.one("kubernetes:core/v1:Service").inputs["spec"]["ports"]
    }
    assert ports == {"http": 8000, "grpc": 8001, "metrics": 8002}
    [rule] = made.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == [8000, 8001]


def test_weights_in_a_bucket_are_refused_since_python_models_read_files():
    with pytest.raises(TypeError, match="Add preheat"):
        server("chat", triton(), site(weights=BUCKET))


def test_a_cache_without_room_is_refused():
    with pytest.raises(ValidationError, match="no responseCacheSize"):
        triton({"writer": {**WRITER, "responseCache": True}})


def test_what_models_ask_of_the_whole_server_is_among_its_arguments():
    limited = {
        **WRITER,
        "rateLimiter": {"resources": {"slots": 1}, "priority": 2},
        "responseCache": True,
    }
    spec = triton(
        {"writer": limited},
        responseCacheSize="64Mi",
        modelLoadThreadCount=2,
        drainSeconds=7,
        ports={"http": 9000, "grpc": 9001, "metrics": 9002},
        metrics={"histogramLatencies": True, "summaryLatencies": True, "intervalMs": 1000},
    )
    assert {
        "--rate-limit=execution_count",
        "--cache-config=local,size=67108864",
        "--model-load-thread-count=2",
        "--exit-timeout-secs=7",
        "--http-port=9000",
        "--grpc-port=9001",
        "--metrics-port=9002",
        "--metrics-config=histogram_latencies=true",
        "--metrics-config=summary_latencies=true",
        "--metrics-interval-ms=1000",
    } <= set(server_args(spec))
    quiet = server_args(triton())
    assert not [
        each
        for each in quiet
        if each.startswith(
            ("--rate-limit", "--cache-config", "--metrics-config", "--metrics-interval")
        )
    ]


def test_a_limited_model_says_what_an_execution_takes():
    limiter = group_of(
        triton({"writer": {**WRITER, "rateLimiter": {"resources": {"slots": 2}, "priority": 3}}}),
        L40S,
    ).rate_limiter
    assert (limiter.priority, [(each.name, each.count) for each in limiter.resources]) == (
        3,
        [("slots", 2)],
    )


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"latest": 2}, "latest"),
        ({"all": True}, "all"),
        ({"specific": [1]}, "specific"),
        (None, None),
    ],
    ids=str,
)
def test_a_version_policy_is_rendered_as_it_is_written(policy, said):
    files = repository_files(
        triton({"writer": {**WRITER, "versionPolicy": policy}}), weights="/models/chat", target=L40S
    )
    assert (
        config_of(files["writer/config.pbtxt"]).version_policy.WhichOneof("policy_choice") == said
    )


def test_a_warm_up_is_sent_before_the_model_is_ready():
    warm = {"batchSize": 4, "count": 2, "dims": {"text_input": [1], "max_tokens": [1]}}
    files = repository_files(
        triton({"writer": {**WRITER, "warmup": [warm]}}), weights="/models/chat", target=L40S
    )
    [made] = config_of(files["writer/config.pbtxt"]).model_warmup
    assert (made.batch_size, made.count) == (4, 2)
    assert made.inputs["text_input"].zero_data
    assert made.inputs["max_tokens"].random_data


def test_shared_memory_is_as_large_as_it_says():
    volumes = (
        declared(triton(sharedMemory="3Gi"))
        .one("kubernetes:apps/v1:Deployment")
        .inputs["spec"]["template"]["spec"]["volumes"]
    )
    assert [each["emptyDir"] for each in volumes if each["name"] == "shm"] == [
        {"medium": "Memory", "sizeLimit": "3Gi"}
    ]


def test_shared_memory_that_the_instances_do_not_fit_is_refused():
    with pytest.raises(
        ValidationError,
        match=(
            "4 instances of python models take 1Mi of shared memory each from the start, and"
            " sharedMemory is 3Mi"
        ),
    ):
        triton({"writer": {**WRITER, "instances": 4}}, sharedMemory="3Mi")
    assert triton({"writer": {**WRITER, "instances": 3}}, sharedMemory="3Mi")


TEXT = {"dataType": "TYPE_STRING", "dims": [1]}
ASKING: dict[str, Any] = {
    "text_input": TEXT,
    "stream": {"dataType": "TYPE_BOOL", "dims": [1], "optional": True},
}


def relay(step: str) -> dict[str, Any]:
    mapped = {"text_input": "text_input", "stream": "stream"}
    steps = [{"modelName": step, "inputMap": mapped, "outputMap": {"text_output": "text_output"}}]
    return {
        "kind": "ensemble",
        "maxBatchSize": 8,
        "input": ASKING,
        "output": {"text_output": TEXT},
        "steps": steps,
    }


def test_streaming_without_a_decoupled_model_is_refused():
    own = {
        "kind": "python",
        "maxBatchSize": 8,
        "code": "pass",
        "input": ASKING,
        "output": {"text_output": TEXT},
    }
    with pytest.raises(
        ValidationError, match=r"requests streaming and decoupled is false\. Write decoupled: true"
    ):
        triton({"own": own})
    assert triton({"own": {**own, "decoupled": True}})
    relaying = {
        **own,
        "input": {**ASKING, "stream": {"dataType": "TYPE_INT32", "dims": [1], "optional": True}},
    }
    ensemble = relay("own")
    ensemble["steps"][0]["inputMap"] = {"text_input": "text_input"}
    with pytest.raises(
        ValidationError, match="the input stream requests streaming, and no step streams"
    ):
        triton({"own": relaying, "relay": {**ensemble}})


def test_an_ensemble_answers_in_pieces_where_one_of_its_steps_does():
    [text] = triton({"writer": {**WRITER, "streaming": True}, "relay": relay("writer")}).texts
    assert (text.model, text.stream, text.decoupled) == ("relay", "stream", True)


def test_vllm_generates_where_it_is_asked_to_and_gets_its_arguments():
    writer = {**WRITER, "library": "vllm", "engineArgs": {"max_model_len": 4096}}
    for target, more in (
        (L40S, {}),
        (GAUDI2, {"dtype": "bfloat16", "block_size": 128}),
        (pool("nvidia-t4"), {"dtype": "half"}),
    ):
        files = repository_files(triton({"writer": writer}), weights="/models/chat", target=target)
        assert "AsyncLLM" in files["writer/1/generator.py"]
        told = config_of(files["writer/config.pbtxt"]).parameters["engine_args"].string_value
        assert json.loads(told) == {"max_model_len": 4096, **more}
    assert container_of(triton({"writer": writer}))["image"].endswith("-vllm-python-py3")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"engineArgs": {"seed": 1}}, "library is not vllm. Write library: vllm"),
        (
            {"library": "vllm", "generator": "class Generator: ..."},
            "library and generator name two sources",
        ),
        (
            {"library": "vllm", "engineArgs": {"tensor_parallel_size": 2}},
            "a generator runs on one accelerator",
        ),
        ({"library": "vllm", "engineArgs": {"data_parallel_size": 2}}, "raise replicas instead"),
        ({"library": "vllm", "instances": 2}, "claim writer 1.84 of it"),
    ],
)
def test_what_vllm_would_only_find_out_on_a_card_is_refused(fields, said):
    with pytest.raises(ValidationError, match=said):
        triton({"writer": {**WRITER, **fields}}, accelerators=1)


def test_one_port_cannot_serve_two_protocols():
    with pytest.raises(ValidationError, match="are not three ports"):
        triton(ports={"http": 9000, "grpc": 9000})
