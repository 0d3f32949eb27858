"""Settings of a stack that contradict the published configuration of a checkpoint, without a start
of its engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_LENGTHS = {
    "max_model_len": "maxModelLen",
    "context_length": "contextLength",
    "max_seq_len": "maxSeqLen",
}


def contradictions(models: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each of `models` that asks for more positions than the checkpoint of its
    name has. Models with traffic have a forecast that says it.
    """
    for name, spec in models.items():
        path = getattr(getattr(spec, "weights", None), "path", "") or ""
        fields = [each for each in _LENGTHS if isinstance(getattr(spec, each, None), int)]
        if not fields or spec.traffic is not None:
            continue
        from inferplan.predict.memory import config_of

        positions = (config_of(path) or {}).get("max_position_embeddings")
        length = getattr(spec, fields[0])
        if (
            positions
            and length > positions
            and "--hf-overrides" not in str(getattr(spec, "extra_args", ""))
        ):
            yield (
                f"models.{name}.{_LENGTHS[fields[0]]}: {length:,} is more than the {positions:,}"
                f" positions in the config.json of {path.rpartition('/')[2]}: the engine does not"
                " start, unless --hf-overrides extends them"
            )
