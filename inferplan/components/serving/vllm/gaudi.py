"""Settings of compilation and warm-up of vLLM on Gaudi, and the environment variables of vllm-gaudi
that they become.

Names, values and defaults: vllm-gaudi docs/configuration/env_variables.md (0.26.0, 2026-08). The
plugin decides about settings that are absent.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt
from pydantic.alias_generators import to_camel

from inferplan.components.spec import Spec, rule

_BUCKETS = (
    "prompt_bs_bucket",
    "prompt_query_bucket",
    "prompt_ctx_bucket",
    "decode_bs_bucket",
    "decode_block_bucket",
)
_OWN = re.compile(r"^VLLM_(?:PROMPT|DECODE)_[A-Z]+_BUCKET_[A-Z_]+$")
_FIELDS = {
    "VLLM_BUCKETING_STRATEGY": "gaudi.bucketingStrategy",
    "VLLM_EXPONENTIAL_BUCKETING": "gaudi.bucketingStrategy",
    "VLLM_GRAPH_RESERVED_MEM": "gaudi.graphReservedMem",
    "VLLM_CONTIGUOUS_PA": "gaudi.contiguousPa",
    "VLLM_SKIP_WARMUP": "gaudi.skipWarmup",
}


class Bucket(Spec):
    """The sizes that one dimension is padded to. Each size is compiled before the first answer."""

    min: NonNegativeInt | None = None
    """The smallest size."""
    step: PositiveInt | None = None
    """The distance between sizes."""
    max: PositiveInt | None = None
    """The largest size."""
    pad_max: NonNegativeInt | None = None
    """Maximum padding in the unit of the dimension; for the strategy `pad` only."""
    pad_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Maximum padding in percent of the size; for the strategy `pad` only."""

    @rule
    def _ends_are_in_order(self) -> Iterator[str]:
        if self.min is not None and self.max is not None and self.min > self.max:
            yield f"min is {self.min} and max {self.max}. Raise max, or lower min."


class GaudiTuning(Spec):
    """The graphs that vllm-gaudi compiles, and the memory that it reserves for them."""

    bucketing_strategy: Literal["exp", "lin", "pad"] | None = None
    """`exp` doubles the sizes, `lin` steps evenly, `pad` limits the padding. Default: exp."""
    prompt_bs_bucket: Bucket | None = None
    """Prompts in one batch; `max` also limits how many are processed at once."""
    prompt_query_bucket: Bucket | None = None
    """Tokens of a prompt."""
    prompt_ctx_bucket: Bucket | None = None
    """Blocks of context that are already in the cache."""
    decode_bs_bucket: Bucket | None = None
    """Sequences in one decoding step."""
    decode_block_bucket: Bucket | None = None
    """Cache blocks of a batch."""
    graph_reserved_mem: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the free memory for compiled graphs. Default: 0.1."""
    contiguous_pa: bool | None = None
    """Contiguous paged attention, which excludes prefix caching."""
    skip_warmup: bool = False
    """Compiles each size at its first request, which then waits. For development only."""

    @rule
    def _padding_is_read(self) -> Iterator[str]:
        idle = [
            to_camel(name)
            for name, bucket in self._buckets()
            if (bucket.pad_max, bucket.pad_percent) != (None, None)
        ]
        if idle and self.bucketing_strategy != "pad":
            yield (
                f"padMax and padPercent of {', '.join(idle)} are read with bucketingStrategy pad"
                f" only, and it is {self.bucketing_strategy or 'exp'}. Write bucketingStrategy:"
                " pad, or remove them."
            )

    def _buckets(self) -> Iterator[tuple[str, Bucket]]:
        yield from (
            (name, bucket) for name in _BUCKETS if (bucket := getattr(self, name)) is not None
        )

    def environment(self) -> dict[str, str]:
        values: dict[str, object] = {
            "VLLM_BUCKETING_STRATEGY": self.bucketing_strategy,
            "VLLM_GRAPH_RESERVED_MEM": self.graph_reserved_mem,
            "VLLM_CONTIGUOUS_PA": (
                None if self.contiguous_pa is None else str(self.contiguous_pa).lower()
            ),
            "VLLM_SKIP_WARMUP": "true" if self.skip_warmup else None,
        }
        for name, bucket in self._buckets():
            values |= {
                f"VLLM_{name}_{part}".upper(): value for part, value in bucket.model_dump().items()
            }
        return {name: str(value) for name, value in values.items() if value is not None}


def field_of(variable: str) -> str | None:
    """Return the field that sets the environment variable; None if no field does."""
    if variable in _FIELDS:
        return _FIELDS[variable]
    if not _OWN.match(variable):
        return None
    bucket, _, part = variable.removeprefix("VLLM_").lower().partition("_bucket_")
    return f"gaudi.{to_camel(f'{bucket}_bucket')}.{to_camel(part)}"
