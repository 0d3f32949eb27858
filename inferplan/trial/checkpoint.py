"""The files of a model for a trial: what is wrong with them, and a small copy that a CPU can hold."""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from inferplan.errors import RequestError

_INDEX = "model.safetensors.index.json"
# A header of safetensors is at most 100 MB long (safetensors 0.8).
_LONGEST_HEADER = 100_000_000
_LAYERS, _MOST_EXPERTS, _WIDTH = 2, 8, 512
# Above this many bytes at 2 a weight, the generated weights are made narrower.
_LARGE_BYTES = 3 << 29
_COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")
_WIDTHS = (
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "n_inner",
)
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_CHOSEN = ("num_experts_per_tok", "moe_top_k", "n_group", "topk_group")
_PARTS = ("text_config", "llm_config", "thinker_config", "vision_config", "audio_config")


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file of weights: its type and its shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """The `directory` with the configuration, the tokenizer and perhaps the weights of a model."""

    directory: Path
    config: Mapping[str, Any]

    @property
    def text(self) -> Mapping[str, Any]:
        """The configuration of the part that generates."""
        return next(
            (part for name in _PARTS[:3] if isinstance(part := self.config.get(name), dict)),
            self.config,
        )

    @property
    def positions(self) -> int | None:
        """Positions that the model has learned."""
        value = self.text.get("max_position_embeddings")
        return value if isinstance(value, int) else None

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors of all files of weights. Raises RequestError for a damaged file."""
        found: dict[str, Tensor] = {}
        for path in sorted(self.directory.glob("*.safetensors")):
            for name, each in _header(path).items():
                if name != "__metadata__":
                    found[name] = Tensor(each["dtype"], tuple(each["shape"]))
        return found


def read_checkpoint(directory: Path) -> Checkpoint:
    """The checkpoint in `directory`. Raises RequestError if it has no readable config.json."""
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RequestError(
            f"--weights: {directory} has no config.json. Name the directory with the configuration"
            " and the tokenizer of the model; weights are not needed"
        ) from None
    except (OSError, ValueError) as error:
        raise RequestError(
            f"--weights: {path} cannot be read ({error}). Copy it again from the model's repository"
        ) from None
    if not isinstance(config, dict):
        raise RequestError(
            f"--weights: {path} is not a JSON object. Copy it again from the model's repository"
        )
    return Checkpoint(directory, config)


def _header(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(min(length, _LONGEST_HEADER)))
        end = max(
            (each["data_offsets"][1] for key, each in header.items() if key != "__metadata__"),
            default=0,
        )
        if path.stat().st_size != 8 + length + end:
            raise ValueError(
                f"{path.stat().st_size} bytes, and its header states {8 + length + end}"
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise RequestError(
            f"{path} is not a whole safetensors file ({error}). Copy it again"
        ) from None
    return header


def faults(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what is wrong with the weights, where vLLM is silent about it or says it late: files of
    the index that are missing, files that are not JSON, layers without some of their tensors, shapes
    of other sizes.
    """
    missing = [name for name in _indexed(checkpoint) if not (checkpoint.directory / name).exists()]
    if missing:
        yield (
            f"Weight files referenced in index but missing: {', '.join(missing)} ({_INDEX}). Copy"
            " them"
        )
    yield from _unreadable(checkpoint)
    yield from _incomplete_layers(checkpoint)
    yield from _other_shapes(checkpoint)


def _unreadable(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the files that are not JSON: vLLM starts without a broken generation_config.json, and
    answers with other sampling parameters.
    """
    for path in sorted(checkpoint.directory.glob("*.json")):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            yield f"{path.name} is not a JSON file ({error}). Copy it again"


def _indexed(checkpoint: Checkpoint) -> list[str]:
    path = checkpoint.directory / _INDEX
    if not path.exists():
        return []
    try:
        return sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise RequestError(f"{path} has no weight_map. Copy it again") from None


def _layers(checkpoint: Checkpoint) -> dict[tuple[str, int], set[str]]:
    """The names of the tensors in each numbered layer, without the number, by the stack of layers
    that they belong to.
    """
    layers: dict[tuple[str, int], set[str]] = {}
    for name in checkpoint.tensors:
        parts = name.split(".")
        at = next((place for place, part in enumerate(parts) if part.isdecimal()), None)
        if at:
            layers.setdefault((".".join(parts[:at]), int(parts[at])), set()).add(
                ".".join(parts[at + 1 :])
            )
    return layers


def _incomplete_layers(checkpoint: Checkpoint) -> Iterator[str]:
    """A layer that has part of another layer's tensors and none of its own is incomplete: layers of
    another kind have tensors that the others lack.
    """
    if checkpoint.text.get("block_configs"):
        # Each layer has modules of its own choice.
        return
    kinds = checkpoint.text.get("layer_types") or []
    count = next((n for key in _COUNTS if isinstance(n := checkpoint.text.get(key), int)), None)
    layers = _layers(checkpoint)
    for stem in sorted({stem for stem, _ in layers}):
        own = {number: names for (each, number), names in layers.items() if each == stem}
        is_text = stem.endswith(("model.layers", "transformer.h")) and "visual" not in stem
        if is_text and count and own:
            # Layers beyond the count predict further tokens, with tensors of their own.
            own = {number: names for number, names in own.items() if number < count}
            absent = [str(number) for number in range(count) if number not in own]
            if absent:
                yield f"the weights have no tensor of {stem}.{', '.join(absent)}, and config.json states {count} layers"
        for number, names in sorted(own.items()):
            kind = kinds[number] if is_text and number < len(kinds) else None
            peers = [
                each
                for other, each in own.items()
                if names < each and (kind is None or (other < len(kinds) and kinds[other] == kind))
            ]
            if peers:
                lost = sorted(max(peers, key=len) - names)
                yield f"{stem}.{number} lacks {', '.join(lost)}, which other layers have. Copy the weights again: such a model starts and answers nonsense"


def _other_shapes(checkpoint: Checkpoint) -> Iterator[str]:
    text = checkpoint.text
    hidden, heads = text.get("hidden_size"), text.get("num_attention_heads")
    if not hidden or not heads or text.get("block_configs"):
        return
    head = text.get("head_dim") or hidden // heads
    expected = {
        "embed_tokens.weight": (text.get("vocab_size"), hidden),
        "self_attn.q_proj.weight": (heads * head, hidden),
        "self_attn.k_proj.weight": ((text.get("num_key_value_heads") or heads) * head, hidden),
    }
    for name, tensor in checkpoint.tensors.items():
        if (
            "vision" in name
            or "visual" in name
            or "audio" in name
            or not tensor.dtype.startswith(("F", "BF"))
        ):
            continue
        for ending, shape in expected.items():
            # A gate doubles the rows of queries; vocabularies are padded.
            fits = tensor.shape[1:] == shape[1:] and tensor.shape[0] >= (shape[0] or 0)
            if name.endswith(f".{ending}") and not fits:
                yield f"{name} has the shape {list(tensor.shape)}, and config.json means {list(shape)}"


def small_copy(checkpoint: Checkpoint, folder: Path) -> list[str]:
    """Fill `folder` with links to the files of the checkpoint, without weights, and with a
    configuration of few and narrow layers; heads, context and vocabulary stay. Return what differs.
    """
    for path in checkpoint.directory.iterdir():
        if path.name != "config.json" and not path.name.endswith(
            (".safetensors", ".safetensors.index.json", ".bin", ".pt", ".gguf")
        ):
            (folder / path.name).symlink_to(path.absolute())
    config = json.loads(json.dumps(checkpoint.config))
    changes: list[str] = []
    for part in (config, *(config[name] for name in _PARTS if isinstance(config.get(name), dict))):
        _fewer_layers(part, changes)
        if _bytes(part) > _LARGE_BYTES:
            _narrow(part, changes)
    # CPUs have no kernels for most quantized weights, and generated weights need no quantization.
    if config.pop("quantization_config", None):
        changes.append("no quantization")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return list(dict.fromkeys(changes))


def _fewer_layers(part: dict[str, Any], changes: list[str]) -> None:
    for key in _COUNTS:
        count = part.get(key)
        if isinstance(count, int) and count > _LAYERS:
            part[key] = _LAYERS
            changes.append(f"{key} {_LAYERS} of {count}")
            for name, value in part.items():
                if isinstance(value, list) and len(value) == count:
                    # One layer of each kind.
                    kinds = sorted(set(map(str, value)), key=list(map(str, value)).index)
                    chosen = [value[list(map(str, value)).index(kind)] for kind in kinds[:_LAYERS]]
                    part[name] = (chosen * _LAYERS)[:_LAYERS]
    for key in ("first_k_dense_replace", "num_nextn_predict_layers", "max_window_layers"):
        if isinstance(part.get(key), int):
            part[key] = min(part[key], 1)


def _bytes(part: Mapping[str, Any]) -> int:
    hidden = part.get("hidden_size") or 0
    width = part.get("moe_intermediate_size") or part.get("intermediate_size") or 4 * hidden
    experts = next((n for key in _EXPERTS if isinstance(n := part.get(key), int)), 1)
    layer = hidden * (4 * hidden + 3 * (width or 0) * max(experts, 1))
    return 2 * (_LAYERS * layer + 2 * hidden * (part.get("vocab_size") or 0))


def _narrow(part: dict[str, Any], changes: list[str]) -> None:
    for key in _WIDTHS:
        if isinstance(part.get(key), int) and part[key] > _WIDTH:
            changes.append(f"{key} {_WIDTH} of {part[key]}")
            part[key] = _WIDTH
    for key in _EXPERTS:
        if isinstance(part.get(key), int) and part[key] > _MOST_EXPERTS:
            changes.append(f"{key} {_MOST_EXPERTS} of {part[key]}")
            part[key] = _MOST_EXPERTS
            part.update(
                {
                    name: 1 if "group" in name else min(part[name], 2)
                    for name in _CHOSEN
                    if isinstance(part.get(name), int)
                }
            )
