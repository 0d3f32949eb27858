"""Models whose image or code brings the files: no weights in the stack file, no volume in the pod."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.components.serving.spec import ModelSpec
from tests.unit.serving.models import declared, deployment_of, pool

IMAGE = "registry.acme.example/app:1.0"
CODE = "class TritonPythonModel: pass"
TENSOR = {"dataType": "TYPE_FP32", "dims": [1]}
PYTHON = {"kind": "python", "code": CODE, "input": {"x": TENSOR}, "output": {"y": TENSOR}}
RAY = {"engine": "ray-serve", "rayVersion": "2.56.0"}
APP = {"kind": "custom", "importPath": "app:graph"}


def model(**fields: Any) -> ModelSpec:
    return TypeAdapter(ModelSpec).validate_python({"pool": "p", "image": IMAGE, **fields})


def templates_of(spec: ModelSpec) -> list[dict[str, Any]]:
    if spec.engine != "ray-serve":
        return [deployment_of(spec, weights=None)["template"]["spec"]]
    cluster = (
        declared(spec, weights=None)
        .one("kubernetes:ray.io/v1:RayService")
        .inputs["spec"]["rayClusterConfig"]
    )
    return [
        each["template"]["spec"]
        for each in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {**RAY, "applications": {"app": APP}},
        {"engine": "pytriton", "script": "serve()"},
        {"engine": "pytriton", "generator": "class Generator: pass"},
        {"engine": "pytriton", "scriptFile": "/app/serve.py"},
        {"engine": "triton", "repository": {"echo": PYTHON}},
        {
            "engine": "triton",
            "repository": {
                "echo": {"kind": "textGeneration", "generator": "class Generator: pass"}
            },
        },
    ],
)
def test_a_model_that_the_image_or_the_code_brings_mounts_no_files(fields):
    for template in templates_of(model(**fields)):
        assert not [each for each in template["volumes"] if "persistentVolumeClaim" in each]
        mounts = [
            mount["mountPath"]
            for container in template["containers"]
            for mount in container["volumeMounts"]
        ]
        assert not [path for path in mounts if path.startswith("/models")]
        assert "initContainers" not in template


def test_a_script_of_the_image_is_started_where_it_is_and_gets_no_model_path():
    [container] = templates_of(model(engine="pytriton", scriptFile="/app/serve.py"))[0][
        "containers"
    ]
    assert container["args"] == ["/app/serve.py"]
    assert "MODEL_PATH" not in {each["name"] for each in container["env"]}


@pytest.mark.parametrize(
    ("fields", "reader"),
    [
        ({**RAY, "applications": {"chat": {"kind": "llm"}}}, "applications.chat of kind llm"),
        (
            {**RAY, "applications": {"app": {**APP, "baseModel": "llama"}}},
            "applications.app.baseModel",
        ),
        ({"engine": "pytriton"}, "library: transformers"),
        ({"engine": "pytriton", "scriptFile": "serve.py"}, "scriptFile"),
        ({"engine": "pytriton", "generatorFile": "generator.py"}, "generatorFile"),
        (
            {"engine": "triton", "repository": {"m": {**PYTHON, "code": None, "file": "m.py"}}},
            "repository.m of kind python",
        ),
        ({"engine": "triton", "repository": {"m": {"kind": "vllm"}}}, "repository.m of kind vllm"),
    ],
)
def test_a_missing_directory_names_what_reads_it(fields, reader):
    with pytest.raises(ValidationError, match="Missing weights") as error:
        model(**fields)
    assert (
        f"Missing weights: {reader} reads them. Add weights: {{store: <store>, path: <directory>}}"
        in str(error.value)
    )


def test_vllm_always_needs_weights():
    with pytest.raises(ValidationError, match="Field required"):
        model(engine="vllm")


def test_a_preheat_needs_weights_to_copy():
    with pytest.raises(
        ValidationError, match=r"preheat copies weights, but the model has none\. Add weights"
    ):
        model(engine="pytriton", script="serve()", preheat={"into": "shared"})


def test_a_path_in_the_image_needs_the_image():
    with pytest.raises(
        ValidationError,
        match=r"'/app/serve\.py' is a path in the image, but image is missing\. Add image",
    ):
        model(engine="pytriton", scriptFile="/app/serve.py", image=None)


@pytest.mark.parametrize("accelerator", ["nvidia-l40s", "gaudi-2"])
def test_the_startup_budget_counts_the_memory_of_the_accelerators(accelerator):
    where = (
        pool(accelerator, machine="g6e.12xlarge")
        if accelerator == "nvidia-l40s"
        else pool(accelerator)
    )
    template = deployment_of(model(engine="pytriton", script="serve()"), weights=None, target=where)
    assert template["progressDeadlineSeconds"] > 600
