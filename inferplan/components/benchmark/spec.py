"""The settings of a benchmark: the models to compare, the lengths of prompts, and the concurrency."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, PositiveInt, StringConstraints

from inferplan.components.spec import Bytes, Cpu, DnsLabel, PinnedImage, Spec, duplicates, rule
from inferplan.images.catalogue import default_image

_MAX_RUNS = 100
BenchmarkModel = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?(/[A-Za-z0-9][A-Za-z0-9._-]{0,127})?$"
    ),
]


class BenchmarkSpec(Spec):
    """Runs the same load against two or more models, one after the other, and prints a table of the
    results.
    """

    models: Annotated[list[BenchmarkModel], Field(min_length=2, max_length=16)]
    """The models to compare, in the order of the table. MODEL/SERVED selects one model of a Triton
    server, for example llm/ensemble.
    """
    consumer: DnsLabel
    """The consumer whose key is used. Each model must list it in its consumers."""
    tokenizer: DnsLabel
    """The model whose tokenizer counts tokens for all models. Its files must be preheated or on a
    volume.
    """
    prompt_tokens: Annotated[list[PositiveInt], Field(min_length=1, max_length=8)] = [128]
    """Prompt lengths in tokens. Each is a separate measurement."""
    output_tokens: PositiveInt = 128
    """Requested length of responses, in tokens."""
    concurrency: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=8)
    ] = [1, 8]
    """Concurrent requests. Each value is a separate measurement."""
    requests: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Requests per measurement."""
    wait_seconds: Annotated[int, Field(ge=0, le=86_400)] = 3600
    """Seconds to wait for a model that is not ready."""
    deadline_seconds: Annotated[int, Field(ge=60, le=604_800)] = 14_400
    """Seconds after which the benchmark is stopped."""
    image: PinnedImage = default_image("benchmark")
    """An image with aiperf and Python in its PATH."""
    cpu: Cpu = "4"
    """CPU request and limit of the load generator."""
    memory: Bytes = "8Gi"
    """Memory request and limit of the load generator."""

    @rule
    def _load_is_possible(self) -> Iterator[str]:
        if repeated := duplicates(self.models):
            yield f"Duplicate model: {', '.join(repeated)}. List each model once."
        runs = len(self.models) * len(self.prompt_tokens) * len(self.concurrency)
        if runs > _MAX_RUNS:
            yield (
                f"This benchmark has {runs} measurements. The maximum is {_MAX_RUNS}. Remove"
                " models, promptTokens or concurrency values."
            )
        if max(self.concurrency) > self.requests:
            yield (
                f"concurrency ({max(self.concurrency)}) is more than requests ({self.requests})."
                " Raise requests."
            )
