"""What a user writes about a comparison: which services, how long their prompts, how many callers at once.

It judges itself; whether the services exist, and whether the consumer may call them, is checked where a stack is read.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from components.spec import Bytes, Cpu, DnsLabel, PinnedImage, Spec
from images.catalogue import default_image

_MOST_RUNS = 100


class BenchmarkSpec(Spec):
    """The same load on two or more services, one after the other, and one table of how they did."""

    models: Annotated[list[DnsLabel], Field(min_length=2, max_length=16)]
    """The services that are compared, in the order of the table."""
    consumer: DnsLabel
    """Whose key the load is sent with; each of the models names this consumer."""
    tokenizer: DnsLabel
    """The model whose files count tokens, the same for every service; it is preheated or on a share."""
    prompt_tokens: Annotated[list[PositiveInt], Field(min_length=1, max_length=8)] = [128]
    """Lengths of prompts, each measured by itself."""
    output_tokens: PositiveInt = 128
    """The length of answers that is asked for."""
    concurrency: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=8)] = [1, 8]
    """Callers at once, each number measured by itself."""
    requests: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Requests of each measurement."""
    wait_seconds: Annotated[int, Field(ge=0, le=86_400)] = 3600
    """How long a service that is not ready yet is waited for."""
    deadline_seconds: Annotated[int, Field(ge=60, le=604_800)] = 14_400
    """When the whole comparison is given up."""
    image: PinnedImage = default_image("benchmark")
    """An image with aiperf and Python on its PATH."""
    cpu: Cpu = "4"
    """CPU that the load generator asks for."""
    memory: Bytes = "8Gi"
    """Memory that the load generator asks for."""

    @model_validator(mode="after")
    def _services_differ(self) -> Self:
        twice = sorted({name for name in self.models if self.models.count(name) > 1})
        if twice:
            raise ValueError(f"models names {', '.join(twice)} more than once; name each service once")
        return self

    @model_validator(mode="after")
    def _ends_some_day(self) -> Self:
        runs = len(self.models) * len(self.prompt_tokens) * len(self.concurrency)
        if runs > _MOST_RUNS:
            raise ValueError(f"these are {runs} measurements, and {_MOST_RUNS} are the most; drop models, promptTokens or concurrency")
        return self

    @model_validator(mode="after")
    def _callers_have_requests(self) -> Self:
        if max(self.concurrency) > self.requests:
            raise ValueError(
                f"concurrency {max(self.concurrency)} is above requests {self.requests}, so callers would idle; raise requests"
            )
        return self
