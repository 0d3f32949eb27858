"""What the image of the plan can judge on a computer without its accelerators, and what an image that
lacks something means.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.errors import RequestError
from inferplan.trial.container import Container
from inferplan.trial.engines import ray_serve, tensorrt_llm, vllm
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding
from tests.unit.serving.models import container_of, declared
from tests.unit.serving.models import vllm as vllm_model
from tests.unit.serving.test_ray_serve import ray
from tests.unit.trial.docker import Docker, installed
from tests.unit.trial.engine_packages import TENSORRT_LLM, VLLM

IMAGE = "docker.io/acme/engine:1"


@pytest.fixture
def docker(tmp_path, monkeypatch):
    return installed(tmp_path / "docker", monkeypatch)


@pytest.fixture
def weights(tmp_path):
    directory = tmp_path / "weights"
    directory.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_size": 64,
        "max_position_embeddings": 8192,
    }
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    return directory


def subject(weights: Path, spec: Any, **more: Any) -> Subject:
    return Subject(
        name="chat",
        spec=spec,
        container=more.pop("container", None) or container_of(spec),
        weights=weights,
        place=Container(engine="docker", image=IMAGE, reads=(weights,)),
        **more,
    )


def by_vllm(docker: Docker, weights: Path, **fields: Any) -> list[Finding]:
    docker.image(IMAGE, VLLM)
    spec = vllm_model(image="docker.io/vllm/vllm-openai:v0.33.0", **fields)
    return list(vllm.run(subject(weights, spec), lambda _: None))


def test_an_image_without_its_accelerators_judges_arguments_and_the_prompt(docker, weights):
    findings = by_vllm(docker, weights, maxModelLen=8192)
    assert [(each.step, each.state) for each in findings] == [
        ("arguments", "works"),
        ("a chat prompt", "works"),
        ("start", "not judged"),
    ]
    # The pinned release itself has judged.
    assert findings[0].sentence == ""
    assert docker.containers == []
    # The key of the server is not on the command line.
    assert 'export VLLM_API_KEY="$TRIAL_KEY"; ' in docker.last_run[-1]
    assert not [each for each in docker.last_run if each.startswith("--env=VLLM_API_KEY")]


def test_the_classes_of_the_image_reject_a_value(docker, weights):
    (finding,) = by_vllm(docker, weights, maxModelLen=9000)
    assert (finding.step, finding.state) == ("arguments", "rejected")
    assert finding.path == ("models", "chat", "maxModelLen")
    assert "greater than the derived 8192" in finding.sentence


def test_a_parser_that_the_server_would_miss_is_rejected(docker, weights):
    (finding,) = by_vllm(docker, weights, extraArgs=["--tool-call-parser", "llama9"])
    assert (finding.step, finding.state) == ("arguments", "rejected")
    assert finding.path == ("models", "chat", "extraArgs", 0)


def test_a_missing_chat_template_is_rejected(docker, weights):
    (weights / "tokenizer_config.json").write_text("{}")
    findings = by_vllm(docker, weights, maxModelLen=8192)
    assert [(each.step, each.state) for each in findings][1] == ("a chat prompt", "rejected")


def test_an_image_without_the_engine_is_no_verdict(docker, weights):
    docker.image(IMAGE, {})
    with pytest.raises(RequestError) as raised:
        list(vllm.run(subject(weights, vllm_model()), lambda _: None))
    assert f"{IMAGE} has no vLLM for its python3. Name an image that has it" in str(raised.value)


def test_a_package_that_the_image_lacks_is_rejected(weights):
    app = {"kind": "custom", "importPath": "app:echo"}
    spec = ray(image=IMAGE, applications={"echo": app})
    line = {"application": "echo", "deployment": "", "step": "import", "missing": "torch"}
    sentence = "ModuleNotFoundError: No module named 'torch'"
    finding = ray_serve._finding(
        subject(weights, spec, container={"env": []}), {**line, "sentence": sentence}
    )
    assert finding.state == "rejected"


def by_tensorrt_llm(docker: Docker, weights: Path, **fields: Any) -> list[Finding]:
    docker.image(IMAGE, fields.pop("packages", TENSORRT_LLM))
    spec = TensorrtLlmSpec.model_validate(
        {
            "engine": "tensorrt-llm",
            "pool": "p",
            "weights": {"store": "weights", "path": "chat"},
            **fields,
        }
    )
    objects = {each.type: each.inputs for each in declared(spec)}
    return list(tensorrt_llm.run(subject(weights, spec, objects=objects), lambda _: None))


def test_the_argument_classes_of_tensorrt_llm_take_the_settings_of_the_plan(docker, weights):
    findings = by_tensorrt_llm(docker, weights, llmArgs={"enable_attention_dp": True})
    assert [(each.step, each.state) for each in findings] == [("arguments", "works")]


def test_an_argument_that_tensorrt_llm_lacks_is_at_its_line(docker, weights):
    (finding,) = by_tensorrt_llm(docker, weights, llmArgs={"enable_attention_dq": True})
    assert finding.state == "rejected"
    assert finding.sentence == "ValueError: got invalid argument: enable_attention_dq"
    assert finding.path == ("models", "chat", "llmArgs", "enable_attention_dq")


def test_a_package_that_needs_the_driver_is_not_judged(docker, weights):
    said = "libcuda.so.1: cannot open shared object file: No such file or directory"
    packages = {**TENSORRT_LLM, "tensorrt_llm/__init__.py": f"raise ImportError({said!r})"}
    (finding,) = by_tensorrt_llm(docker, weights, packages=packages)
    assert (finding.state, finding.sentence) == ("not judged", f"ImportError: {said}")


def test_engines_are_not_tried(docker, weights):
    with pytest.raises(RequestError, match="which only accelerators can build and load"):
        by_tensorrt_llm(docker, weights, build={"modelFamily": "llama"}, preheat={"into": "shared"})
