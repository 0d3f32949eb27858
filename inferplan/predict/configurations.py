"""Configurations of models that the library of kernels lacks: those of our table, and files."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from inferplan.tables import table


class UnknownSpeedError(Exception):
    """Nothing measured answers the question; `remedy` says what would."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}. {remedy}" if remedy else reason)
        self.reason = reason


def stated_config(name: str) -> Mapping[str, Any] | None:
    """The configuration of a model that the library lacks: that of the file `name`, or that of our
    table whose name `name` begins with. Raises UnknownSpeedError for a file that is none.
    """
    if name.endswith("config.json"):
        return _config_in(name)
    key, own = name.rpartition("/")[2].lower(), table("predict/data/models.toml")["models"]
    beginnings = [each for each in own if key.startswith(each.lower())]
    return own[max(beginnings, key=len)] if beginnings else None


@cache
def _config_in(path: str) -> Mapping[str, Any]:
    needed = {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"}
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        sizes = {**config, **(config.get("text_config") or {})}
        wrong = {name: sizes[name] for name in needed & sizes.keys() if not _is_count(sizes[name])}
        missing = sorted(needed - sizes.keys())
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UnknownSpeedError(
            f"traffic.model: {path} is not a config.json ({error})",
            "Copy it from the repository of the model",
        ) from None
    if wrong:
        name, value = min(wrong.items())
        raise UnknownSpeedError(
            f"traffic.model: {path}: {name} is {value!r}, not a positive integer",
            "Copy it from the repository of the model",
        )
    if missing:
        raise UnknownSpeedError(
            f"traffic.model: {path} lacks {', '.join(missing)}",
            "Copy it from the repository of the model",
        )
    return config


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0
