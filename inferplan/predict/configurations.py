"""Configurations of models that the library of kernels lacks: from our table or from files."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from inferplan.tables import table


class UnknownSpeedError(Exception):
    """No measurement gives this speed; `remedy` says how to get one."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}. {remedy}" if remedy else reason)
        self.reason = reason


def check_release(framework: str, image: str) -> None:
    """Raises UnknownSpeedError if the image's release predates the scheduler that predictions follow."""
    first = table("predict/data/library.toml")["firstRelease"].get(framework)
    match = re.search(first["image"], image) if first else None
    if match and [*map(int, match.groups())] < first["release"]:
        oldest = ".".join(map(str, first["release"]))
        raise UnknownSpeedError(
            f"{image} predates the scheduler of release {oldest}, which predictions follow",
            f"Use an image of {oldest} or newer",
        )


def stated_config(name: str) -> Mapping[str, Any] | None:
    """The configuration of a model that the library lacks: the file `name`, or the entry of our
    table whose name is a prefix of `name`. Raises UnknownSpeedError for an invalid file.
    """
    if name.endswith("config.json"):
        return _config_in(name)
    rows, key = table("predict/data/models.toml"), name.rpartition("/")[2].lower()
    if key.startswith(tuple(rows["other_layers"])):
        return None
    own = rows["models"]
    beginnings = [each for each in own if key.startswith(each.lower())]
    return own[max(beginnings, key=len)] if beginnings else None


@cache
def _config_in(path: str) -> Mapping[str, Any]:
    needed = {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"}
    counts = needed | {
        *("num_key_value_heads", "head_dim", "intermediate_size"),
        *("kv_lora_rank", "qk_rope_head_dim"),
    }
    lists = ("architectures", "layer_types")
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        sizes = {**config, **(config.get("text_config") or {})}
        wrong = {
            name: value
            for name, value in sizes.items()
            if name in counts and value is not None and not _is_count(value)
        } | {name: sizes[name] for name in lists if not _is_list_of_words(sizes.get(name, []))}
        missing = sorted(needed - sizes.keys())
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UnknownSpeedError(
            f"traffic.model: {path} is not a config.json ({error})",
            "Copy it from the repository of the model",
        ) from None
    if wrong:
        name, value = min(wrong.items())
        raise UnknownSpeedError(
            f"traffic.model: {path}: {name} is {value!r}, not a"
            f" {'list of words' if name in lists else 'positive integer'}",
            "Copy it from the repository of the model",
        )
    if missing:
        raise UnknownSpeedError(
            f"traffic.model: {path} lacks {', '.join(missing)}",
            "Copy it from the repository of the model",
        )
    return config


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_list_of_words(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    )
