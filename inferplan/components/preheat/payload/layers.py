"""Checks that each layer of a model has the tensors of its architecture: engines start without a warning on weights that lack some, and answer nonsense.

Only architectures whose layers are all alike are checked, by the names of the index or, without one, of the only file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from .errors import Exit, PreheatError
from .json_text import leaves
from .tensors import header_length

_CONFIG, _INDEX, _FILE = "config.json", "model.safetensors.index.json", "model.safetensors"
_LARGEST_CONFIG, _MOST_LAYERS = 1 << 20, 10_000
# transformers 5.19: one class of layers, the same in each of num_hidden_layers.
_ALIKE = frozenset(
    f"{name}ForCausalLM" for name in ("Gemma", "Gemma2", "Granite", "Llama", "Mistral", "Mixtral", "Olmo2", "Phi3", "Qwen2", "Qwen3", "Starcoder2")
)
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj", "gate_proj", "up_proj", "down_proj", "gate_up_proj", "c_fc", "c_proj")
_MODULE = re.compile(
    rf"model\.layers\.([0-9]{{1,5}})\.((?:self_attn|mlp)\.(?:{'|'.join(_PROJECTIONS)})|block_sparse_moe\.gate|\w+_layernorm)\."
)


def check_layers(directory: Path, names: Collection[str]) -> None:
    """Raise PreheatError(REFUSED) for a layer of the model in `directory` that lacks a module which another layer has."""
    count = _layers(directory) if _CONFIG in names else 0
    source = next((each for each in (_INDEX, _FILE) if each in names), None)
    if not count or source is None:
        return
    modules: dict[str, set[int]] = {}
    for tensor in _tensors(directory / source, indexed=source == _INDEX):
        if match := _MODULE.match(tensor):
            modules.setdefault(match[2], set()).add(int(match[1]))
    for module, layers in sorted(modules.items()):
        if lacking := [number for number in range(count) if number not in layers]:
            problem = f"layer {lacking[0]} has no {module}, and {count - len(lacking)} of {count} layers have one"
            remedy = "upload the weights again: an engine starts without a warning on these, and answers nonsense"
            raise PreheatError(Exit.REFUSED, problem, remedy, file=source)


def _layers(directory: Path) -> int:
    """The number of layers by config.json, 0 if they are not known to be alike."""
    path = directory / _CONFIG
    if path.stat().st_size > _LARGEST_CONFIG:
        return 0
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        count, architectures = config["num_hidden_layers"], config["architectures"]
        alike = len(architectures) == 1 and architectures[0] in _ALIKE and not config.get("block_configs")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0
    return count if alike and isinstance(count, int) and count <= _MOST_LAYERS else 0


def _tensors(path: Path, *, indexed: bool) -> Iterator[str]:
    """The names of the tensors in an index, or in a file of weights that is whole."""
    with path.open("rb") as stream:
        size = path.stat().st_size
        length = size if indexed else header_length(stream, size)
        for leaf, _ in leaves(stream, length):
            if not indexed:
                yield str(leaf[0]) if leaf else ""
            elif leaf[:1] == ("weight_map",) and len(leaf) > 1:
                yield str(leaf[1])
