"""The files of a tiny model for a rehearsal: a Llama of two layers with generated weights, and its
tokenizer. It answers every prompt with one sentence.

Each token is one direction of the hidden state. Attention and MLP have random weights and add
nothing; the head leads from each word of the sentence to the next one, and from anything else to
the first.
"""

import json
import random
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

SENTENCE: Final = (
    "This answer was computed by the real engine, from generated weights of a tiny model that knows"
    " one sentence only."
)
_HEADS, _HEAD, _LAYERS = 4, 80, 2
_HIDDEN: Final = _HEADS * _HEAD
_INNER: Final = 2 * _HIDDEN
_CONTEXT: Final = 2**17
_ONE: Final = b"\x80\x3f"  # 1.0 as bfloat16, little-endian
# Upper bytes of bfloat16: 0.008 to 0.03, positive or negative.
_SMALL: Final = bytes([0x3C, 0xBC]) * 128
_ANSWER, _END = "<|answer|>", "<|end|>"
Tensor = tuple[tuple[int, ...], bytes]


def write(folder: Path) -> None:
    """Write the files into `folder`. Same code, same bytes."""
    tokens = _tokens()
    answer, end = len(tokens) - 2, len(tokens) - 1
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "head_dim": _HEAD,
        "vocab_size": len(tokens),
        "max_position_embeddings": _CONTEXT,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "bos_token_id": answer,
        "eos_token_id": end,
    }
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = [
        {"id": each, "content": tokens[each], "special": True, **flags} for each in (answer, end)
    ]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}" + _ANSWER
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _END,
        "model_max_length": _CONTEXT,
        "chat_template": template,
    }
    for name, document in (
        ("config.json", config),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", settings),
    ):
        (folder / name).write_text(json.dumps(document, indent=1), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_safetensors(_tensors(tokens)))


def _tokens() -> list[str]:
    """The bytes in the spelling of byte-level tokenizers (GPT-2), the words of the sentence, and two
    special tokens.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(byte if byte in printable else next(others)) for byte in range(256)]
    words = SENTENCE.split(" ")
    return [*letters, words[0], *(letters[ord(" ")] + word for word in words[1:]), _ANSWER, _END]


def _tensors(tokens: list[str]) -> dict[str, Tensor]:
    count, source = len(tokens), random.Random(0)  # noqa: S311 - weights, not secrets
    first, answer = 256, count - 2
    following = [
        (each + 1 if each < answer - 1 else count - 1) if first <= each < answer else first
        for each in range(count)
    ]
    vector: Tensor = (_HIDDEN,), _ONE * _HIDDEN
    made = {
        "model.embed_tokens.weight": _matrix(
            count, _HIDDEN, ((each, each) for each in range(count))
        ),
        "model.norm.weight": vector,
        "lm_head.weight": _matrix(
            count, _HIDDEN, ((target, each) for each, target in enumerate(following))
        ),
    }
    for layer in range(_LAYERS):
        at = f"model.layers.{layer}"
        made |= {f"{at}.{name}_layernorm.weight": vector for name in ("input", "post_attention")}
        for name in "qkv":
            made[f"{at}.self_attn.{name}_proj.weight"] = _noise(_HIDDEN, _HIDDEN, source)
        made[f"{at}.self_attn.o_proj.weight"] = _matrix(_HIDDEN, _HIDDEN)
        for name in ("gate", "up"):
            made[f"{at}.mlp.{name}_proj.weight"] = _noise(_INNER, _HIDDEN, source)
        made[f"{at}.mlp.down_proj.weight"] = _matrix(_HIDDEN, _INNER)
    return made


def _matrix(rows: int, columns: int, ones: Iterable[tuple[int, int]] = ()) -> Tensor:
    data = bytearray(2 * rows * columns)
    for row, column in ones:
        start = 2 * (row * columns + column)
        data[start : start + 2] = _ONE
    return (rows, columns), bytes(data)


def _noise(rows: int, columns: int, source: random.Random) -> Tensor:
    data = bytearray(2 * rows * columns)
    data[0::2] = source.randbytes(rows * columns)
    data[1::2] = source.randbytes(rows * columns).translate(_SMALL)
    return (rows, columns), bytes(data)


def _safetensors(tensors: dict[str, Tensor]) -> bytes:
    header: dict[str, Any] = {}
    end = 0
    for name, (shape, data) in tensors.items():
        offsets = [end, end := end + len(data)]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": offsets}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())
