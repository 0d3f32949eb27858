"""Ranks of LoRA adapters by their `adapter_config.json`, against the bound of the server."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CONFIG = "adapter_config.json"
_LARGEST = 1 << 20


def rank_problems(
    adapters: Mapping[str, str], directory: Path, most: int, *, default: bool
) -> Iterator[str]:
    """Yield a sentence for each of `adapters`, by name their directories below `directory`, whose
    rank exceeds `most`. `default` is true if that is the engine's own bound.
    """
    for name, path in adapters.items():
        file = directory / path / CONFIG
        try:
            rank = _rank(file)
        except FileNotFoundError:
            yield (
                f"loraAdapters.{name}: {file} does not exist, so the server does not start. Correct"
                " the directory, or copy the adapter there"
            )
            continue
        except (OSError, ValueError) as error:
            yield f"loraAdapters.{name}: {file} cannot be read: {error}. Copy the adapter again"
            continue
        if rank > most:
            bound = f"the engine's default, {most}" if default else f"maxLoraRank, {most}"
            yield (
                f"loraAdapters.{name}: {file} has rank {rank}, which is above {bound}, so the server"
                f" does not start. Set maxLoraRank to at least {rank}, or use an adapter with"
                " a smaller rank"
            )


def _rank(file: Path) -> int:
    """The largest rank of the adapter: `r`, or that of a module. Raises OSError and ValueError."""
    with file.open("rb") as stream:
        config: Any = json.loads(stream.read(_LARGEST))
    if not isinstance(config, dict) or not isinstance(config.get("r"), int):
        raise ValueError("it has no integer rank 'r'")  # noqa: TRY004 - a fault of the file
    of_modules = config.get("rank_pattern")
    ranks = of_modules.values() if isinstance(of_modules, dict) else ()
    return max(config["r"], *(each for each in ranks if isinstance(each, int)), 0)
