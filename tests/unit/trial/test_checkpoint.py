"""A checkpoint without some of its tensors starts in vLLM without a warning and answers nonsense."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from inferplan.errors import RequestError
from inferplan.trial.checkpoint import faults, read_checkpoint, small_copy

HEADS, HEAD, HIDDEN, WIDTH, VOCABULARY = 4, 32, 128, 256, 512
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "num_hidden_layers": 3,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "intermediate_size": WIDTH,
    "vocab_size": VOCABULARY,
}
LAYER = {
    "self_attn.q_proj.weight": [HEADS * HEAD, HIDDEN],
    "self_attn.k_proj.weight": [2 * HEAD, HIDDEN],
    "mlp.gate_proj.weight": [WIDTH, HIDDEN],
    "mlp.down_proj.weight": [HIDDEN, WIDTH],
    "input_layernorm.weight": [HIDDEN],
}
EXPERTS = {
    **{name: shape for name, shape in LAYER.items() if not name.startswith("mlp")},
    "mlp.gate.weight": [8, HIDDEN],
    "mlp.experts.0.down_proj.weight": [HIDDEN, WIDTH],
}
FURTHER = {**EXPERTS, "eh_proj.weight": [HIDDEN, 2 * HIDDEN]}
SCAN = {"mixer.in_proj.weight": [WIDTH, HIDDEN], "input_layernorm.weight": [HIDDEN]}


def write(path: Path, tensors: dict[str, list[int]]) -> None:
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 2
        for each in shape:
            size *= each
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + end)


def checkpoint(directory: Path, layers: list[dict[str, list[int]]], **config: Any):
    tensors = {"model.embed_tokens.weight": [VOCABULARY, HIDDEN], "model.norm.weight": [HIDDEN]}
    for number, layer in enumerate(layers):
        tensors |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    write(directory / "model.safetensors", tensors)
    (directory / "config.json").write_text(json.dumps({**CONFIG, **config}))
    return read_checkpoint(directory)


WHOLE = [
    [LAYER] * 3,
    [LAYER, EXPERTS, EXPERTS],
    [EXPERTS, EXPERTS, EXPERTS, FURTHER],
    [SCAN, LAYER, SCAN],
]


@pytest.mark.parametrize("layers", WHOLE, ids=["dense", "experts", "next-tokens", "hybrid"])
def test_whole_checkpoints_have_no_fault(tmp_path, layers):
    assert list(faults(checkpoint(tmp_path, layers))) == []


def without(*endings: str) -> dict[str, list[int]]:
    return {name: shape for name, shape in LAYER.items() if not name.startswith(endings)}


BROKEN = [
    ([LAYER, without("mlp"), LAYER], "model.layers.1 lacks mlp.down_proj.weight, mlp.gate_proj"),
    ([LAYER, LAYER, without("self_attn.k")], "model.layers.2 lacks self_attn.k_proj.weight"),
    ([LAYER, LAYER], "no tensor of model.layers.2"),
    ([LAYER, {**LAYER, "self_attn.k_proj.weight": [HEAD, HIDDEN]}, LAYER], "[32, 128]"),
]


@pytest.mark.parametrize(("layers", "said"), BROKEN)
def test_layers_without_their_tensors_are_faults(tmp_path, layers, said):
    assert any(said in each for each in faults(checkpoint(tmp_path, layers)))


def test_a_file_that_is_not_json_is_a_fault(tmp_path):
    whole = checkpoint(tmp_path, [{}])
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.6,')
    [fault] = faults(whole)
    assert fault.startswith("generation_config.json is not a JSON file (")


def test_files_that_the_index_names_and_nobody_copied_are_a_fault(tmp_path):
    whole = checkpoint(tmp_path, [LAYER] * 3)
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    [fault] = faults(whole)
    assert "missing: model-00002-of-00002.safetensors" in fault


@pytest.mark.parametrize("spoil", [b"", b"\xff" * 12])
def test_a_damaged_file_is_named(tmp_path, spoil):
    whole = checkpoint(tmp_path, [LAYER] * 3)
    (tmp_path / "model.safetensors").write_bytes(spoil)
    with pytest.raises(RequestError, match="not a whole safetensors file"):
        list(faults(whole))


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_configuration_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RequestError, match=r"config\.json"):
        read_checkpoint(tmp_path)


def test_the_small_copy_keeps_heads_context_and_vocabulary(tmp_path):
    large = {
        "hidden_size": 16384,
        "num_hidden_layers": 126,
        "num_attention_heads": 128,
        "intermediate_size": 53248,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "layer_types": ["full_attention"] * 63 + ["sliding_attention"] * 63,
        "quantization_config": {"quant_method": "fp8"},
    }
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "tokenizer.json").write_text("{}")
    differs = small_copy(checkpoint(source, [LAYER] * 3, **large), target)
    small = json.loads((target / "config.json").read_text())
    kept = ("hidden_size", "num_attention_heads", "vocab_size", "max_position_embeddings")
    assert {name: small[name] for name in kept} == {name: large[name] for name in kept}
    assert small["num_hidden_layers"] == 2
    assert small["layer_types"] == ["full_attention", "sliding_attention"]
    assert small["intermediate_size"] < 1000
    assert sorted(each.name for each in target.iterdir()) == ["config.json", "tokenizer.json"]
    assert "num_hidden_layers 2 of 126" in differs
    assert "no quantization" in differs
