"""A trial that cannot run is refused before anything starts, with what to do."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferplan.commands.try_model import trying
from inferplan.commands.try_model.trying import tried
from inferplan.errors import RequestError
from inferplan.hardware.accelerators import vendors
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).parents[3]


@pytest.fixture
def weights(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    return tmp_path


@pytest.fixture
def said(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.setenv("INFERPLAN_CPU_SERVER", sys.executable)

    def refusal(stack: str, model: str, directory: Path, **more: Any) -> str:
        with pytest.raises(RequestError) as raised:
            tried(open_workspace(stack), model, directory, note_each=lambda _: None, **more)
        return str(raised.value)

    return refusal


def test_an_unknown_model_is_named_with_those_that_exist(said, weights):
    text = said("local", "lama-3-8b", weights)
    assert "lama-3-8b" in text
    assert "llama-3-8b" in text


def test_an_engine_that_cannot_be_tried_is_named(said, weights):
    assert "runs on pytriton, which cannot be tried without accelerators" in said(
        str(ROOT / "docs/engines/Pulumi.pytriton.yaml"), "writer", weights
    )


def test_an_engine_that_images_alone_have_needs_a_container(said, weights):
    text = said(str(ROOT / "docs/engines/Pulumi.tensorrt-llm.yaml"), "llama-3-8b", weights)
    assert "TensorRT-LLM, which has no package for this computer. Use --container" in text


def test_an_unknown_container_engine_is_named(said, weights):
    text = said("local", "llama-3-8b", weights, container="dokcer")
    assert "'dokcer' is not a container engine. Allowed: docker, podman, nerdctl" in text


def test_a_directory_that_is_not_there_is_named(said, tmp_path):
    assert "is not a directory" in said("local", "llama-3-8b", tmp_path / "nowhere")


def test_a_linked_directory_is_mounted_at_its_real_place(said, weights, tmp_path, monkeypatch):
    def mounted(_engine: str, _image: str, directory: Path) -> None:
        raise RequestError(str(directory))

    monkeypatch.setattr(trying, "_container", mounted)
    (tmp_path / "link").symlink_to(weights)
    assert said("local", "llama-3-8b", tmp_path / "link", container="docker") == str(
        weights.resolve()
    )


def test_a_program_that_is_not_here_is_named_with_the_way_to_get_it(said, weights, monkeypatch):
    monkeypatch.setenv("INFERPLAN_CPU_SERVER", "/nowhere/vllm")
    text = said("local", "llama-3-8b", weights)
    assert "/nowhere/vllm is not a program on this computer. Install the CPU build of vLLM" in text


def test_a_directory_without_configuration_is_named(said, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"{empty} has no config.json" in said("local", "llama-3-8b", empty)


def test_an_interpreter_without_the_engine_is_no_finding(said, weights):
    assert "is not in an environment with vLLM. Install" in said("local", "llama-3-8b", weights)


def test_a_program_without_triton_is_no_finding(said, weights):
    text = said(str(ROOT / "docs/engines/Pulumi.triton.yaml"), "writer", weights)
    assert (
        "is neither tritonserver nor a program of an environment that has nvidia-pytriton" in text
    )


def test_a_request_that_is_none_is_named(said, weights, tmp_path):
    file = tmp_path / "request.json"
    file.write_text('{"path": "/v1/completions"}')
    assert "is not a request (KeyError: 'body')" in said(
        "local", "llama-3-8b", weights, request=file
    )


@pytest.mark.parametrize(
    ("files", "accelerators"),
    [
        (["kfd", "dri/card0", *(f"dri/renderD{128 + number}" for number in range(8))], 8),
        # The graphics of a computer without ROCm's driver.
        (["dri/card0", "dri/renderD128"], 0),
    ],
)
def test_amd_accelerators_are_counted_by_their_render_devices(
    monkeypatch, tmp_path, files, accelerators
):
    (tmp_path / "dri").mkdir()
    for each in files:
        (tmp_path / each).touch()
    monkeypatch.setattr(trying, "_DEVICES", tmp_path)
    place = trying._container("docker", "docker.io/vllm/vllm-openai-rocm:v0.33.0", tmp_path)
    assert place.accelerators == accelerators
    assert ("--device=/dev/kfd" in place.options) == bool(accelerators)


@pytest.mark.parametrize(
    ("files", "engine", "accelerators", "options"),
    [
        ("null", "docker", 1, ["--gpus=all"]),
        ("no-such-device*", "docker", 0, []),
        # An engine without known options gets no devices.
        ("null", "podman", 0, []),
    ],
)
def test_a_container_gets_the_accelerators_of_its_vendor(
    monkeypatch, tmp_path, files, engine, accelerators, options
):
    own = replace(vendors()["nvidia"], containers={"files": files, "docker": ["--gpus=all"]})
    monkeypatch.setattr(trying, "vendors", lambda: {"nvidia": own})
    place = trying._container(engine, "docker.io/vllm/vllm-openai:v0.33.0", tmp_path)
    assert (place.accelerators, [*place.options]) == (accelerators, options)
    words = place._run("name", "true", {}, tmp_path)
    assert ("--memory=8g" in words) == (not accelerators)
    assert set(options) <= set(words)
