"""Triton models that exist already: files of every backend, and whole repositories."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.serving.triton.messages import config_of
from inferplan.components.serving.triton.repository import repository_files
from inferplan.components.serving.triton.repository_check import repository_problems
from inferplan.components.serving.triton.service import endpoint
from inferplan.components.serving.triton.spec import TritonSpec
from tests.unit.serving.models import GAUDI2, KEY, L40S, deployment_of

IMAGE = {
    "input": {"x": {"dataType": "TYPE_FP32", "dims": [3, -1]}},
    "output": {"y": {"dataType": "TYPE_FP32", "dims": [4]}},
}
EXISTING = {
    "store": "models",
    "path": "vision",
    "revision": "v3",
    "models": ["densenet", "ensemble"],
}
FILES = {
    "onnx": ("onnxruntime", "densenet/model.onnx"),
    "tensorrt": ("tensorrt", "plans/h100.plan"),
    "pytorch": ("pytorch", "traced.pt"),
    "openvino": ("openvino", "ir/model.xml"),
    "fil": ("fil", "forest/xgboost.json"),
}


def triton(repository: dict[str, Any], **fields: Any) -> TritonSpec:
    base = {"engine": "triton", "pool": "p", "weights": {"store": "models", "path": "vision"}}
    return TritonSpec.model_validate({**base, "repository": repository, **fields})


def container_of(spec: TritonSpec) -> dict[str, Any]:
    return deployment_of(spec)["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("kind", FILES)
def test_a_file_becomes_the_version_of_a_model_of_its_backend(kind):
    backend, file = FILES[kind]
    spec = triton(
        {"vision": {"kind": kind, "file": file, **IMAGE, "maxBatchSize": 8, "version": 3}},
        accelerators=2,
    )
    config = config_of(
        repository_files(spec, weights="/models/chat", target=L40S)["vision/config.pbtxt"]
    )
    folder, _, name = file.rpartition("/")
    assert (config.name, config.backend, config.default_model_filename, config.max_batch_size) == (
        "vision",
        backend,
        name,
        8,
    )
    [group] = config.instance_group
    assert (group.KIND_GPU if kind != "openvino" else group.KIND_CPU) == group.kind
    mounts = {each["mountPath"]: each for each in container_of(spec)["volumeMounts"]}
    assert mounts["/repository/vision/config.pbtxt"]["subPath"] == "vision/config.pbtxt"
    assert mounts["/repository/vision/3"]["name"] == "model"
    assert mounts["/repository/vision/3"]["subPath"] == f"llama/abc-r0/{folder}".rstrip("/")
    assert "/repository/vision" not in mounts


def test_a_backend_of_the_image_needs_no_file():
    spec = triton(
        {"mine": {"kind": "custom", "backend": "acme_fft", **IMAGE, "device": "cpu"}},
        weights=None,
        image="acme/triton:1",
    )
    files = repository_files(spec, weights="/models/chat", target=L40S)
    assert config_of(files["mine/config.pbtxt"]).backend == "acme_fft"
    assert "mine/1/custom.txt" in files


def test_a_stateful_model_gets_its_sequences():
    sequences = {
        "oldest": {"maxCandidateSequences": 16},
        "maxSequenceIdleMicroseconds": 5_000_000,
        "controlInput": [
            {
                "name": "START",
                "control": [{"kind": "CONTROL_SEQUENCE_START", "int32FalseTrue": [0, 1]}],
            },
            {
                "name": "ID",
                "control": [{"kind": "CONTROL_SEQUENCE_CORRID", "dataType": "TYPE_UINT64"}],
            },
        ],
        "state": [{"inputName": "in", "outputName": "out", "dataType": "TYPE_FP32", "dims": [4]}],
    }
    spec = triton(
        {
            "speech": {
                "kind": "onnx",
                "file": "a.onnx",
                **IMAGE,
                "maxBatchSize": 4,
                "sequenceBatching": sequences,
            }
        }
    )
    batching = config_of(
        repository_files(spec, weights="/w", target=L40S)["speech/config.pbtxt"]
    ).sequence_batching
    assert (batching.oldest.max_candidate_sequences, batching.max_sequence_idle_microseconds) == (
        16,
        5_000_000,
    )
    assert [each.name for each in batching.control_input] == ["START", "ID"]
    assert list(batching.control_input[0].control[0].int32_false_true) == [0, 1]
    assert batching.state[0].input_name == "in"


def test_an_existing_repository_is_mounted_whole_and_verified():
    spec = triton(EXISTING, weights=None, preheat={"into": "shared"})
    assert spec.stored_files is not None
    assert (spec.stored_files.path, spec.stored_files_field) == ("vision", "repository")
    container = container_of(spec)
    assert [
        (each["mountPath"], each["subPath"])
        for each in container["volumeMounts"]
        if each["name"] == "model"
    ] == [("/repository", "llama/abc-r0")]
    assert "--model-repository=/repository" in container["args"]
    assert "--disable-auto-complete-config" not in container["args"]
    assert (
        "--disable-auto-complete-config"
        in container_of(triton({"a": {"kind": "onnx", "file": "a.onnx", **IMAGE}}))["args"]
    )
    assert endpoint("chat", spec, KEY).served_names == ("densenet", "ensemble")


def test_a_model_that_is_called_store_is_no_existing_repository():
    assert triton({"store": {"kind": "onnx", "file": "a.onnx", **IMAGE}}).existing is None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"kind": "onnx", "file": "model.pt"},
            (
                "file 'model.pt' is not a file of the onnxruntime backend. Expected a name that"
                " ends in .onnx"
            ),
        ),
        (
            {"kind": "tensorrt", "file": "a.plan", "device": "cpu"},
            "device cpu is not available for kind tensorrt. Use device: accelerator",
        ),
        (
            {"kind": "openvino", "file": "a.xml", "device": "accelerator"},
            "device accelerator is not available for kind openvino. Use device: cpu",
        ),
        (
            {
                "kind": "onnx",
                "file": "a.onnx",
                "maxBatchSize": 2,
                "dynamicBatching": {},
                "sequenceBatching": {},
            },
            "sequenceBatching and dynamicBatching exclude each other. Remove one of them",
        ),
        (
            {
                "kind": "onnx",
                "file": "a.onnx",
                "sequenceBatching": {"direct": {}, "oldest": {"maxCandidateSequences": 2}},
            },
            "sequenceBatching has two strategies, direct and oldest. Remove one of them",
        ),
        (
            {
                "kind": "onnx",
                "file": "a.onnx",
                "sequenceBatching": {
                    "controlInput": [{"name": "S", "control": [{"kind": "CONTROL_SEQUENCE_START"}]}]
                },
            },
            (
                "CONTROL_SEQUENCE_START has two values. Set one of int32FalseTrue, fp32FalseTrue,"
                " boolFalseTrue, for example [0, 1]"
            ),
        ),
        (
            {
                "kind": "onnx",
                "file": "a.onnx",
                "sequenceBatching": {
                    "controlInput": [
                        {
                            "name": "x",
                            "control": [
                                {"kind": "CONTROL_SEQUENCE_END", "boolFalseTrue": [False, True]}
                            ],
                        }
                    ]
                },
            },
            "x is an input and a controlInput. Remove it from input: Triton sends it",
        ),
    ],
)
def test_a_model_that_triton_would_not_load_is_rejected(model, message):
    with pytest.raises(ValidationError) as error:
        triton({"m": {**model, **IMAGE}})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"weights": {"store": "a", "path": "b"}},
            "nothing reads weights. Remove weights, or add them as artifacts",
        ),
        (
            {"frontend": "openai"},
            "frontend: openai requires models of kind vllm in this file. Remove frontend",
        ),
    ],
)
def test_an_existing_repository_stands_alone(fields, message):
    with pytest.raises(ValidationError) as error:
        triton(EXISTING, **{"weights": None, **fields})
    assert message in str(error.value)


def test_the_accelerator_and_the_image_must_have_the_backend():
    onnx = {"m": {"kind": "onnx", "file": "a.onnx", **IMAGE}}
    [fault] = triton(onnx).errors_on(GAUDI2)
    assert (
        "onnxruntime backend has no build for these accelerators. Use device: cpu" in fault.message
    )
    assert list(triton(onnx).errors_on(L40S)) == []
    [fault] = triton(onnx, image="nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3").errors_on(
        L40S
    )
    assert (
        "does not have the onnxruntime backend. It has python, vllm. Set image to one that has it"
        in fault.message
    )
    [fault] = triton({**onnx, "chat": {"kind": "vllm"}}).errors_on(L40S)
    assert fault.path == ("repository", "m", "kind")


SOUND = {
    "echo/config.pbtxt": 'backend: "python"',
    "echo/1/model.py": "",
    "both/config.pbtxt": (
        'platform: "ensemble" ensemble_scheduling { step { model_name: "echo" model_version: -1 } }'
    ),
    "both/1/empty": "",
    "plain/3/model.onnx": "",
    "READY": "{}",
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"echo/config.pbtxt": "backend: python"}, "echo: config.pbtxt cannot be read: 1:10"),
        (
            {"echo/config.pbtxt": 'name: "other" backend: "python"'},
            "echo: config.pbtxt has the name 'other'. Expected 'echo'",
        ),
        (
            {"echo/config.pbtxt": 'backend: "dali"'},
            "echo: the image does not have the dali backend. It has onnxruntime, python. Set image",
        ),
        (
            {"both/config.pbtxt": 'ensemble_scheduling { step { model_name: "gone" } }'},
            "both: a step of the ensemble is 'gone', which the repository does not have. Add it",
        ),
        (
            {
                "echo/config.pbtxt": (
                    'backend: "python" max_batch_size: 2 dynamic_batching {'
                    " preferred_batch_size: 4 }"
                )
            },
            "echo: preferred_batch_size [4] is above max_batch_size 2. Lower it",
        ),
        ({"echo/1/model.py": None}, "echo: 1/model.py is missing. Add the source of the model"),
        (
            {"plain/3/model.onnx": None, "plain/x/model.onnx": ""},
            "plain: it has no version. Expected a directory with a number",
        ),
        (
            {name: None for name in SOUND if name.startswith("both")},
            "both: there is no such directory. The repository has echo, plain. Correct models",
        ),
    ],
)
def test_a_repository_that_can_be_read_is_checked_before_it_is_copied(tmp_path, change, problem):
    for path, text in {**SOUND, **change}.items():
        if text is not None or path.endswith(("model.py", "model.onnx")):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (tmp_path / path).write_text(text)
    if "plain/x/model.onnx" in change:
        (tmp_path / "plain" / "3").rmdir()
    problems = list(repository_problems(tmp_path, ["echo", "both"], {"python", "onnxruntime"}))
    assert [each for each in problems if problem is None or not each.startswith(problem)] == []
    assert len(problems) == (problem is not None)
