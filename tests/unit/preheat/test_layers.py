"""A checkpoint of which a layer lacks a module is refused; whole ones of every layout are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.preheat.payload.errors import Exit, PreheatError
from inferplan.components.preheat.payload.layers import check_layers

LLAMA = (
    *(f"self_attn.{each}_proj.weight" for each in "qkvo"),
    *(f"mlp.{each}_proj.weight" for each in ("gate", "up", "down")),
    "input_layernorm.weight",
    "post_attention_layernorm.weight",
)
AWQ = tuple(each.replace("proj.weight", "proj.qweight") for each in LLAMA)


def names_of(*layers: tuple[str, ...]) -> list[str]:
    own = [f"model.layers.{number}.{each}" for number, all_ in enumerate(layers) for each in all_]
    return ["model.embed_tokens.weight", *own, "model.norm.weight"]


def written(
    folder: Path, names: list[str], *, index: bool = True, layers: int = 3, **config: Any
) -> set[str]:
    settings = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": layers, **config}
    (folder / "config.json").write_text(json.dumps(settings))
    if index:
        document = {"metadata": {}, "weight_map": dict.fromkeys(names, "model-1.safetensors")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(document))
        return {"config.json", "model.safetensors.index.json"}
    tensors = {
        each: {"dtype": "F16", "shape": [1], "data_offsets": [2 * at, 2 * at + 2]}
        for at, each in enumerate(names)
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(2 * len(names))
    (folder / "model.safetensors").write_bytes(content)
    return {"config.json", "model.safetensors"}


WITHOUT_MLP = tuple(each for each in LLAMA if not each.startswith("mlp."))


@pytest.mark.parametrize("index", [True, False], ids=["index", "file"])
def test_a_layer_without_its_mlp_is_refused_with_its_number(tmp_path, index):
    names = written(tmp_path, names_of(LLAMA, WITHOUT_MLP, LLAMA), index=index)
    with pytest.raises(PreheatError, match=r"layer 1 has no mlp\.down_proj, and 2 of 3") as raised:
        check_layers(tmp_path, names)
    assert raised.value.code is Exit.REFUSED
    assert raised.value.of_content


def test_a_layer_that_is_absent_is_refused(tmp_path):
    names = written(tmp_path, names_of(LLAMA, LLAMA))
    with pytest.raises(PreheatError, match="layer 2 has no input_layernorm"):
        check_layers(tmp_path, names)


WHOLE: dict[str, tuple[list[str], dict[str, Any]]] = {
    "alike": (names_of(LLAMA, LLAMA, LLAMA), {}),
    "one layer not quantized": (names_of(AWQ, LLAMA, AWQ), {}),
    "a further layer that predicts": (names_of(LLAMA, LLAMA, LLAMA, WITHOUT_MLP), {}),
    "layers of their own choice": (
        names_of(LLAMA, WITHOUT_MLP, LLAMA),
        {"architectures": ["DeciLMForCausalLM"], "block_configs": [{}]},
    ),
    "an unknown architecture": (
        names_of(LLAMA, WITHOUT_MLP, LLAMA),
        {"architectures": ["OwnForCausalLM"]},
    ),
    "no number of layers": (names_of(LLAMA, WITHOUT_MLP), {"num_hidden_layers": None}),
    "a hostile number of layers": (names_of(LLAMA), {"num_hidden_layers": 10**12}),
    "a configuration of a list": (names_of(LLAMA, WITHOUT_MLP), {"architectures": {}}),
    "other names": (["transformer.h.0.mlp.c_fc.weight"], {}),
}


@pytest.mark.parametrize("case", WHOLE)
def test_whole_weights_and_what_is_not_known_pass(tmp_path, case):
    tensors, config = WHOLE[case]
    check_layers(tmp_path, written(tmp_path, tensors, **config))


def test_weights_without_a_configuration_pass(tmp_path):
    names = written(tmp_path, names_of(LLAMA, WITHOUT_MLP, LLAMA))
    check_layers(tmp_path, names - {"config.json"})
