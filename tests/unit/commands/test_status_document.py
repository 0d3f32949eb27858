"""`inferplan status --json`: what programs read about a stack, and that the same state gives the
same bytes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferplan.status.document import status_json
from inferplan.status.status import read_state
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).parents[3]
VLLM, TRITON = (ROOT / "docs" / "engines" / f"Pulumi.{name}.yaml" for name in ("vllm", "pytriton"))


def document(path: Path) -> tuple[str, dict]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        workspace = open_workspace(str(path))
        recording = workspace.record()
        contract = contract_of(workspace.settings)
        state = read_state(workspace.settings, contract, lambda _path: {"items": []})
        texts = {status_json(workspace.stack, state, contract, recording) for _ in range(2)}
    [text] = texts
    return text, json.loads(text)


@pytest.fixture(scope="module")
def vllm():
    return document(VLLM)


def test_models_have_engine_image_replicas_and_the_url_that_clients_call(vllm):
    _, made = vllm
    model = next(each for each in made["models"] if each["name"] == "llama-3-8b")
    assert (model["engine"], model["replicas"]) == ("vllm", {"declared": 2, "ready": 0})
    assert model["image"].startswith("docker.io/vllm/vllm-openai:")
    assert model["endpoint"] == "http://llm.local.test/llama-3-8b/v1"
    assert model["servedNames"] == ["llama-3-8b", "polite"]
    assert made["settled"] is False


def test_mounted_objects_are_those_of_the_model_s_pods_and_who_may_write(vllm):
    _, made = vllm
    model = next(each for each in made["models"] if each["name"] == "llama-3-70b")
    mounts = {
        (each["kind"], each["container"], each["path"], each["readOnly"])
        for each in model["mounts"]
    }
    assert ("PersistentVolumeClaim", "server", "/models/llama-3-70b", True) in mounts
    assert {each for each in mounts if not each[3]} == {
        ("PersistentVolumeClaim", "recipes", "/recipes", False)
    }
    assert all(each["name"] for each in model["mounts"])


def test_each_container_says_what_its_image_rests_on():
    _, made = document(TRITON)
    evidence = {(each["container"], each["evidence"]) for each in made["images"]["containers"]}
    assert ("server", "nothing") in evidence
    assert ("verified", "catalogue") in evidence
    assert "nothing is known about" in made["images"]["summary"]


def test_no_secret_is_in_the_document(vllm):
    text, _ = vllm
    assert "secure" not in text
    assert "ip-v1-" not in text
