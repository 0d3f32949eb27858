"""Writes a tiny Llama with random weights and a tokenizer of single bytes: `python tiny_llama.py
DIRECTORY [SIZES]`, in vLLM's environment.

`SIZES` are settings of the model as JSON that replace those below.

What it says means nothing; that it is loaded, batched and streamed like any other is the point.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WIDTH, LAYERS = 128, 2
SPECIAL = ("<s>", "</s>", "<unk>")
TEMPLATE = (
    "{% for each in messages %}{{ each['role'] }}: {{ each['content'] }}\n{% endfor %}assistant:"
)


def alphabet() -> list[str]:
    """The 256 characters that stand for bytes in byte-level tokenizers, in the order of the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def tokenizer() -> dict[str, object]:
    """`tokenizer.json`: one token a byte, no merges."""
    tokens = [*SPECIAL, *alphabet()]
    added = [
        {
            "id": index,
            "content": token,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for index, token in enumerate(SPECIAL)
    ]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    model = {
        "type": "BPE",
        "unk_token": "<unk>",
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [],
    }
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
    return {
        "version": "1.0",
        **empty,
        "added_tokens": added,
        "pre_tokenizer": level,
        "decoder": level,
        "model": model,
    }


def write(directory: Path, **sizes: int) -> None:
    """Writes configuration, weights and tokenizer below `directory`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    size = len(SPECIAL) + 256
    # vLLM's attention on CPUs knows heads of 32 and wider (0.32.0).
    shape = {
        "hidden_size": WIDTH,
        "intermediate_size": 128,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        **sizes,
    }
    config = LlamaConfig(
        vocab_size=size,
        **shape,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    _write_adapter(directory / "adapters" / "polite", torch)
    names = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "unk_token": SPECIAL[2]}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": TEMPLATE,
        "model_max_length": shape["max_position_embeddings"],
        **names,
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer()), encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _write_adapter(directory: Path, torch: Any) -> None:
    """A LoRA adapter of rank 8 for the queries of every layer, strong enough to change what is
    said.
    """
    from importlib import import_module

    directory.mkdir(parents=True)
    shapes = {"lora_A": (8, WIDTH), "lora_B": (WIDTH, 8)}
    tensors = {
        f"base_model.model.model.layers.{layer}.self_attn.q_proj.{part}.weight": torch.randn(shape)
        for layer in range(LAYERS)
        for part, shape in shapes.items()
    }
    import_module("safetensors.torch").save_file(tensors, directory / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": 8,
        "lora_alpha": 64,
        "target_modules": ["q_proj"],
        "bias": "none",
    }
    (directory / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), **json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}"))
