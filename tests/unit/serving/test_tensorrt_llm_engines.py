"""Engines of TensorRT-LLM: when they are others, and the Job that builds them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.serving.tensorrt_llm.engine_build import engines_of
from inferplan.components.serving.tensorrt_llm.service import image_of
from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.components.sources import ModelMount, VolumeClaim
from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.serving.models import L40S, declared, deployment_of, pool, site
from tests.unit.serving.test_tensorrt_llm import BUILD, IMAGE, engines


def key_of(spec: TensorrtLlmSpec, **where: Any) -> str:
    found = engines_of("chat", spec, site(**where), image_of(spec, site(**where)))
    assert found is not None
    return found.key


def test_servers_wait_for_the_engines_and_the_engines_for_the_weights():
    made = declared(engines(tensorParallelSize=2))
    job = made.one("kubernetes:batch/v1:Job")
    assert job.urn in made.one("kubernetes:apps/v1:Deployment").dependencies
    verified = deployment_of(engines())["template"]["spec"]["initContainers"]
    assert [each["name"] for each in verified] == ["built"]
    assert "/engines/chat/READY" in verified[0]["command"][2]


def test_the_build_runs_on_a_card_of_the_pool_as_the_user_who_may_write_and_ends():
    job = declared(
        engines(
            build={**BUILD, "cards": 2, "timeoutSeconds": 3600},
            preheat={"into": "shared", "runAsUser": 1234},
        )
    ).one("kubernetes:batch/v1:Job")
    spec = job.inputs["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert container["image"] == IMAGE
    assert pod["securityContext"]["runAsUser"] == 1234
    assert spec["activeDeadlineSeconds"] == 3600
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [2, 3]
    assert {each["mountPath"]: each.get("readOnly") for each in container["volumeMounts"]}[
        "/weights"
    ] is True


def test_the_builds_request_says_what_to_call_and_holds_no_secret():
    job = declared(
        engines(
            tensorParallelSize=2,
            maxSeqLen=4096,
            build={**BUILD, "buildArgs": ["--gemm_plugin=auto"]},
        )
    ).one("kubernetes:batch/v1:Job")
    [container] = job.inputs["spec"]["template"]["spec"]["containers"]
    asked = json.loads(
        next(each["value"] for each in container["env"] if each["name"] == "ENGINE_REQUEST")
    )
    assert asked["convert"] == [
        "--model_dir=/weights",
        "--dtype=auto",
        "--tp_size=2",
        "--pp_size=1",
    ]
    assert asked["build"] == [
        "--workers=1",
        "--max_batch_size=64",
        "--max_seq_len=4096",
        "--gemm_plugin=auto",
    ]
    assert asked["directory"].startswith("engines/llama/")
    assert asked["ranks"] == 2


CHANGES: list[dict[str, Any]] = [
    {"weights": {"store": "w", "path": "llm/llama", "revision": "b" * 40}},
    {"image": "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3"},
    {"tensorParallelSize": 2},
    {"pipelineParallelSize": 2},
    {"dtype": "float16"},
    {"maxBatchSize": 8},
    {"maxSeqLen": 4096},
    {"build": {"modelFamily": "qwen"}},
    {"build": {**BUILD, "buildArgs": ["--gemm_plugin=auto"]}},
    {"build": {**BUILD, "convertArgs": ["--use_fp8"]}},
]
SAME: list[dict[str, Any]] = [
    {"replicas": 3},
    {"streaming": False},
    {"maxTokens": 7},
    {"ports": {"http": 9000}},
    {"kvCacheFreeGpuMemFraction": 0.3},
    {"env": {"NCCL_DEBUG": "INFO"}},
    {"build": {**BUILD, "timeoutSeconds": 900}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_engines_are_other_engines_when_what_they_are_made_of_changes(change):
    revision = change.get("weights", {}).get("revision", "a")
    mount = ModelMount(
        claim=VolumeClaim(name="shared"), sub_path=f"llama/{revision}-r0", marked=True
    )
    before = ModelMount(claim=VolumeClaim(name="shared"), sub_path="llama/a-r0", marked=True)
    assert key_of(engines(**change), weights=mount) != key_of(engines(), weights=before)


def test_engines_are_other_engines_on_another_card():
    assert key_of(engines(), target=pool("nvidia-h100")) != key_of(engines(), target=L40S)


@pytest.mark.parametrize("change", SAME, ids=str)
def test_engines_stay_when_only_the_serving_changes(change):
    assert key_of(engines(**change)) == key_of(engines())


def test_a_new_round_builds_again_beside_the_old_one():
    first, second = (
        declared(engines(build={**BUILD, "round": number})).one("kubernetes:batch/v1:Job")
        for number in (0, 1)
    )
    assert first.inputs["metadata"]["name"].removesuffix("-r0") == second.inputs["metadata"][
        "name"
    ].removesuffix("-r1")


def test_another_release_of_this_project_builds_nothing_again():
    [program] = [
        each
        for each in declared(engines()).of_type("kubernetes:core/v1:ConfigMap")
        if each.name.startswith("chat-engines-")
    ]
    assert program.options.ignore_changes == ("data",)
    assert (
        program.inputs["metadata"]["name"]
        == declared(engines()).one("kubernetes:batch/v1:Job").inputs["metadata"]["name"]
    )


def test_engines_on_disks_of_single_nodes_are_refused():
    disks = ModelMount(claim=VolumeClaim(name="disks", nodes=L40S), sub_path="llama/a-r0")
    with pytest.raises(TypeError, match="a share that every node sees"):
        engines_of("chat", engines(), site(weights=disks), IMAGE)


def test_a_stack_that_would_build_engines_onto_a_nodes_own_disk_is_refused(tmp_path):
    chat = {
        "engine": "tensorrt-llm",
        "pool": "l40s",
        "weights": {"store": "s", "path": "m"},
        "preheat": {"into": "d"},
        "build": BUILD,
    }
    config = {
        "cluster": {"provider": "simulated"},
        "nodePools": {
            "l40s": {"provider": "simulated", "accelerator": "nvidia-l40s", "nodes": 1},
            "system": {"provider": "simulated", "nodes": 1},
        },
        "storage": {
            "s": {"kind": "nfs", "server": "nfs.internal", "path": "/models", "capacity": "1Ti"},
            "d": {"kind": "nodeDisk", "pool": "l40s", "path": "/mnt/models", "capacity": "1Ti"},
        },
        "models": {"chat": chat},
    }
    path = tmp_path / "Pulumi.test.yaml"
    path.write_text(
        json.dumps({"config": {f"inferplan:{key}": value for key, value in config.items()}})
    )
    with pytest.raises(InvalidStack) as refused:
        validate(read_stack(path, shown_path="s.yaml"))
    assert "'d' is a disk of each node" in "\n".join(refused.value.lines)


EXISTING = {
    "build": None,
    "engineDir": "h100",
    "artifacts": {"h100": {"store": "weights", "path": "engines/llama-h100", "revision": "v1"}},
}
H100 = {
    "h100": ModelMount(claim=VolumeClaim(name="shared"), sub_path="engines/abc-r0", marked=True)
}


@pytest.mark.parametrize("ranks", [1, 2])
def test_existing_engines_are_mounted_verified_and_served_without_a_build(ranks):
    spec = engines(**EXISTING, tensorParallelSize=ranks)
    made = declared(spec, artifacts=H100)
    assert not list(made.of_type("kubernetes:batch/v1:Job"))
    pod = made.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    [server] = pod["containers"]
    assert server["image"] == IMAGE
    assert "tritonserver" in [*server["command"], *server["args"]]
    assert ("mpirun" in server["args"]) == (ranks > 1)
    mounts = {
        each["mountPath"]: each["subPath"] for each in server["volumeMounts"] if "subPath" in each
    }
    assert mounts["/artifacts/h100"] == "engines/abc-r0"
    assert [each["name"] for each in pod["initContainers"]] == ["verified-h100"]
    files = made.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    assert any(
        '"/artifacts/h100"' in text for path, text in files.items() if path.endswith("config.pbtxt")
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"build": BUILD}, "engineDir has engines, and build makes new ones. Remove one of them"),
        (
            {"engineDir": "a100"},
            (
                "engineDir names 'a100', which is not an artifact. Artifacts: h100. Add artifacts:"
                " {a100: {store, path}}"
            ),
        ),
        ({"llmArgs": {"max_beam_width": 2}}, "llmArgs are arguments of trtllm-serve"),
    ],
)
def test_existing_engines_need_their_artifact_and_no_build(fields, message):
    with pytest.raises(ValidationError) as error:
        engines(**{**EXISTING, **fields})
    assert message in str(error.value)


def test_existing_engines_need_an_image_that_serves_them():
    [fault] = engines(**EXISTING, image="nvcr.io/nvidia/tensorrt-llm/release:1.2.1").errors_on(L40S)
    assert "holds no Triton, which serves engines" in fault.message
