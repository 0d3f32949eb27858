"""Plans compare a stack with the config.json of the published model, without starting an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferplan.planning.checkpoints import contradictions
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.predict.facts import library

ROOT = Path(__file__).parents[3]


def said(tmp_path: Path, old: str, new: str) -> list[str]:
    text = (ROOT / "stacks" / "Pulumi.prod.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "Pulumi.prod.yaml"
    path.write_text(text.replace(old, new, 1))
    return list(contradictions(validate(read_stack(path))))


@pytest.mark.parametrize(("length", "lines"), [(1_000_000, 1), (32_768, 0)])
def test_a_length_beyond_the_positions_of_the_checkpoint_is_said(tmp_path, length, lines):
    library()
    old = "path: qwen-3-8b, revision: b968826d9c46dd6066d109eabc6255188de91218, size: 17Gi}"
    found = said(
        tmp_path, old, f"{old.replace('qwen-3-8b', 'Qwen3-8B')}\n      maxModelLen: {length}"
    )
    assert len(found) == lines
    assert all("1,000,000 is more than the 40,960 positions" in each for each in found)
    assert all(each.startswith("models.qwen-3-8b.maxModelLen: ") for each in found)


def test_the_committed_stack_contradicts_nothing(tmp_path):
    assert said(tmp_path, "size: 17Gi", "size: 17Gi") == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "engines").glob("Pulumi.*.yaml")), ids=lambda path: path.name
)
def test_examples_of_all_engines_contradict_nothing(path):
    assert list(contradictions(validate(read_stack(path)))) == []


HUB = """config:
  inferplan:apiKeySeed: {secure: v1:AAAA}
  inferplan:cluster: {provider: simulated}
  inferplan:nodePools:
    l4: {provider: simulated, accelerator: nvidia-l4, instanceType: g6.xlarge, nodes: 1}
    system: {provider: simulated, nodes: 2, zones: [zone-a, zone-b]}
  inferplan:storage:
    hub: {kind: huggingface%s}
    shared: {kind: nfs, server: nfs.storage.svc, path: /export/models, capacity: 2Ti}
  inferplan:models:
    notes:
      engine: vllm
      weights: {store: hub, path: %s, revision: "b968826d9c46dd6066d109eabc6255188de91218", size: 9Gi}
      preheat: {into: shared}
      pool: l4
      maxModelLen: 4096
"""


@pytest.mark.parametrize(
    ("path", "store", "words"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "", "gated"),
        ("google/gemma-3-12b-it", "", "credentials: {secretName: NAME}"),
        ("google/medgemma-4b-it", "", "gated"),
        ("meta-llama/Llama-3.1-8B", ", credentials: {secretName: hub}", ""),
        ("meta-llama/Llama-3.1-8B", ", endpoint: https://hub.acme.example", ""),
        ("Qwen/Qwen3-8B", "", ""),
        ("unsloth/Qwen3-8B-GGUF", "", "GGUF files"),
        ("acme/gguf_small", "", "GGUF files"),
        ("acme/piggufs", "", ""),
    ],
)
def test_a_repository_that_no_preheat_or_engine_can_read_is_said(tmp_path, path, store, words):
    file = tmp_path / "Pulumi.hub.yaml"
    file.write_text(HUB % (store, path))
    found = list(contradictions(validate(read_stack(file))))
    assert [words in each for each in found] == ([True] if words else [])


ADAPTER = """config:
  inferplan:apiKeySeed: {secure: v1:AAAA}
  inferplan:cluster: {provider: simulated}
  inferplan:nodePools:
    l4: {provider: simulated, accelerator: nvidia-l4, instanceType: g6.xlarge, nodes: 1}
    system: {provider: simulated, nodes: 2, zones: [zone-a, zone-b]}
  inferplan:storage:
    nas: {kind: nfs, server: nfs.storage.svc, path: %s, capacity: 2Ti}
  inferplan:models:
    notes:
      engine: %s
      weights: {store: nas, path: notes, revision: "1", size: 9Gi}
      pool: l4
      loraAdapters: {polite: adapters/polite}%s
      consumers: [chat]
  inferplan:gateway: {host: llm.local.test, insecure: true, ingressClassName: nginx}
  inferplan:consumers:
    chat: {keys: [1]}
"""


@pytest.mark.parametrize(
    ("engine", "bound", "config", "expected"),
    [
        ("vllm", "", {"r": 16}, ""),
        ("vllm", "", {"r": 64}, "has rank 64, which is above the engine's default, 16,"),
        ("vllm", "", {"r": 8, "rank_pattern": {"q_proj": 32}}, "has rank 32,"),
        ("vllm", "maxLoraRank: 64", {"r": 64}, ""),
        ("vllm", "maxLoraRank: 8", {"r": 64}, "has rank 64, which is above maxLoraRank, 8,"),
        ("sglang", "", {"r": 64}, ""),
        ("sglang", "maxLoraRank: 8", {"r": 64}, "has rank 64, which is above maxLoraRank, 8,"),
        ("vllm", "", {"rank": 8}, "cannot be read: it has no integer rank 'r'."),
        ("vllm", "", None, "so the server does not start. Correct the directory"),
    ],
)
def test_the_rank_of_an_adapter_on_this_machine_is_compared(
    tmp_path, engine, bound, config, expected
):
    folder = tmp_path / "notes/adapters/polite"
    folder.mkdir(parents=True)
    if config is not None:
        (folder / "adapter_config.json").write_text(json.dumps(config))
    path = tmp_path / "Pulumi.test.yaml"
    path.write_text(ADAPTER % (tmp_path, engine, f"\n      {bound}" if bound else ""))
    lines = list(contradictions(validate(read_stack(path))))
    assert len(lines) == bool(expected)
    assert all(expected in each and "models.notes.loraAdapters.polite: " in each for each in lines)


@pytest.mark.parametrize(
    ("published", "setting", "words"),
    [
        ("Qwen3-8B", "quantization: awq", "has no quantization_config"),
        ("Qwen3-8B", "quantization: compressed-tensors", "has no quantization_config"),
        ("Qwen3-8B", "quantization: fp8", ""),
        ("gpt-oss-20b", "quantization: awq", "awq does not match mxfp4 in"),
        ("gpt-oss-20b", "quantization: mxfp4", ""),
        ("Qwen3-8B", "extraArgs: [--enable-expert-parallel]", "needs experts"),
        ("Qwen3-30B-A3B", "extraArgs: [--enable-expert-parallel]", ""),
        ("Qwen2.5-7B", "tensorParallelSize: 4", ""),
        ("Qwen2.5-0.5B", "tensorParallelSize: 4", "does not divide the 14 attention heads"),
    ],
)
def test_a_setting_that_the_layers_contradict_is_said(tmp_path, published, setting, words):
    library()
    file = tmp_path / "Pulumi.hub.yaml"
    text = HUB.replace("instanceType: g6.xlarge", "instanceType: g6.48xlarge")
    file.write_text(f"{text % ('', f'acme/{published}')}      {setting}\n")
    found = list(contradictions(validate(read_stack(file))))
    assert len(found) == bool(words)
    place = setting.partition(":")[0]
    assert all(words in each and each.startswith(f"models.notes.{place}") for each in found)
