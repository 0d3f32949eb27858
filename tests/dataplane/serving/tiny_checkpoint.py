"""Writes the checkpoint of an engine configuration: `python tiny_checkpoint.py DIRECTORY RECORD`, in
vLLM's environment. RECORD is its row in `configurations/`, as JSON.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

tiny_llama = import_module("tiny_llama")
TYPES = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "MistralForCausalLM": "mistral",
    "Gemma2ForCausalLM": "gemma2",
    "BertModel": "bert",
    "LlavaForConditionalGeneration": "llava",
}
WIDTH, LAYERS, VOCABULARY = 128, 2, 512
SHAPE = {
    "hidden_size": WIDTH,
    "intermediate_size": 256,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "head_dim": WIDTH // 4,
}


def configuration(architecture: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The configuration of two narrow layers of `architecture`, with `changes`."""
    from transformers import AutoConfig

    kind = TYPES[architecture]
    if kind == "llava":
        vision = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1}
        vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
        text = AutoConfig.for_model("llama", **SHAPE).to_dict()
        tower = AutoConfig.for_model("clip_vision_model", **vision).to_dict()
        config = AutoConfig.for_model("llava", text_config=text, vision_config=tower)
        config.image_token_index = config.image_token_id = VOCABULARY - 1
        made = config.to_dict()
    elif kind == "bert":
        shape = {key: SHAPE[key] for key in SHAPE if key not in ("num_key_value_heads", "head_dim")}
        made = AutoConfig.for_model(kind, **shape).to_dict()
    else:
        made = AutoConfig.for_model(kind, **SHAPE).to_dict()
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    return {"architectures": [architecture], **made, **ids, "dtype": "float32", **changes}


def write_tokenizer(directory: Path, settings: dict[str, Any], length: int) -> None:
    tokenizer = tiny_llama.tokenizer()
    first = max(tokenizer["model"]["vocab"].values()) + 1
    last = VOCABULARY - 1
    for number, token in enumerate(settings.get("extra", ())):
        at = last if token == "<image>" else first + number  # noqa: S105 - a token of text
        tokenizer["added_tokens"].append(
            {**tokenizer["added_tokens"][0], "id": at, "content": token}
        )
        tokenizer["model"]["vocab"][token] = at
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    special = tiny_llama.SPECIAL
    written = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **dict(zip(("bos_token", "eos_token", "unk_token"), special, strict=True)),
        "model_max_length": length,
    }
    if settings.get("chat_template", True):
        written["chat_template"] = tiny_llama.TEMPLATE
    (directory / "tokenizer_config.json").write_text(json.dumps(written), encoding="utf-8")


def write_weights(directory: Path, shards: int) -> None:
    """Weights with the names and shapes of a Llama or Qwen2, in `shards` files with an index."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
    tensors = {name: each.clone().to(torch.float32) for name, each in model.state_dict().items()}
    names, placed = sorted(tensors), {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        own = names[number::shards]
        import_module("safetensors.torch").save_file(
            {name: tensors[name] for name in own}, directory / file
        )
        placed |= dict.fromkeys(own, file)
    index = {"metadata": {}, "weight_map": placed}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def write_adapter(directory: Path, rank: int) -> None:
    import torch

    directory.mkdir(parents=True)
    tensors = {
        f"base_model.model.model.layers.{layer}.self_attn.q_proj.{part}.weight": torch.zeros(shape)
        for layer in range(LAYERS)
        for part, shape in {"lora_A": (rank, WIDTH), "lora_B": (WIDTH, rank)}.items()
    }
    import_module("safetensors.torch").save_file(tensors, directory / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank}
    settings |= {"target_modules": ["q_proj"], "bias": "none"}
    (directory / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")


def main(directory: Path, record: dict[str, Any]) -> None:
    directory.mkdir(parents=True)
    files, model = record["files"], record["model"]
    config = configuration(model["architecture"], model["config"])
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    length = config.get("max_position_embeddings") or SHAPE["max_position_embeddings"]
    write_tokenizer(directory, files.get("tokenizer", {}), length)
    if model["architecture"] == "LlavaForConditionalGeneration":
        from transformers import CLIPImageProcessor, LlavaProcessor, PreTrainedTokenizerFast

        images = CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        )
        tokens = PreTrainedTokenizerFast.from_pretrained(directory)
        LlavaProcessor(
            images, tokens, patch_size=14, vision_feature_select_strategy="default"
        ).save_pretrained(directory)
    for each in files.get("lora", ()):
        write_adapter(directory / each["name"], each["rank"])
    if "weights" in files:
        write_weights(directory, files["weights"]["shards"])
    for name, text in files.get("write", {}).items():
        (directory / name).write_text(text, encoding="utf-8")
    for name in files.get("remove", ()):
        (directory / name).unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
