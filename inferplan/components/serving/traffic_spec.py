"""The expected traffic of a model. Only predictions read it; no running component does."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, StringConstraints
from pydantic.alias_generators import to_camel

from inferplan.components.monitoring.slo_spec import SloSpec
from inferplan.components.spec import Spec, checked, rule
from inferplan.hardware.accelerators import Accelerator


def _project_path(text: str) -> Iterator[str]:
    if (
        not all(text.split("/"))
        or {".", ".."} & set(text.split("/"))
        or "\\" in text
        or not text.isprintable()
    ):
        yield (
            f"{text!r} is not a path below the project's folder. Write names joined by slashes:"
            " traces/monday.jsonl"
        )


_MEANS = ("requests_per_second", "input_tokens", "output_tokens")


class TrafficSpec(Spec):
    """The requests that all replicas of a model serve together: averages, or a recorded trace."""

    requests_per_second: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Requests per second to all replicas, at the time that the objective has to hold."""
    input_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Mean number of tokens of a prompt."""
    output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Mean number of tokens of an answer."""
    shared_prefix_percent: Annotated[int, Field(ge=0, le=99)] = 0
    """Share of a prompt that the prefix cache already has, such as a system prompt."""
    trace: Annotated[str, StringConstraints(max_length=512), checked(_project_path)] | None = None
    """A file of recorded requests, below the project's folder: Mooncake's JSON lines or Azure's CSV
    (docs/prediction.md).
    """
    model: (
        Annotated[
            str,
            StringConstraints(
                pattern=r"^([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+|([A-Za-z0-9_.-]+/)*config\.json)$",
                max_length=200,
            ),
            checked(_project_path),
        ]
        | None
    ) = None
    """The published model whose layers this model has, as Hugging Face names it, or its config.json
    below the project's folder. Default: the model that the path of the weights names.
    """

    @rule
    def _means_or_trace(self) -> Iterator[str]:
        means = [to_camel(name) for name in _MEANS if getattr(self, name) is not None]
        missing = [to_camel(name) for name in _MEANS if getattr(self, name) is None]
        if self.trace is not None and means:
            yield (
                f"trace already has the requests, and {', '.join(means)} repeats them. Remove one"
                " of the two"
            )
        if self.trace is None and missing:
            yield (
                f"Missing {', '.join(missing)}. Traffic is requestsPerSecond, inputTokens and"
                f" outputTokens, or a trace. Add {'it' if len(missing) == 1 else 'them'}, or write"
                " trace: <file>"
            )


@dataclass(frozen=True, kw_only=True)
class Batching:
    """The batching of an engine, which shares its accelerators among requests, as far as a
    prediction depends on it.

    `framework` is the name of the engine's measured kernels; `memory_share` is a share of the free
    memory if `of_free`, else of all. `sequences_field` is the key of `max_sequences` in a stack
    file.
    """

    framework: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    max_sequences: int
    max_tokens_per_step: int
    memory_share: float
    of_free: bool = False
    context_length: int | None = None
    quantization: str | None = None
    cache_type: str | None = None
    prefix_caching: bool = True
    sequences_field: str = "maxNumSeqs"

    def document(self, image: str | None) -> Mapping[str, Any]:
        return {
            to_camel(name): value
            for name, value in (*vars(self).items(), ("image", image))
            if value is not None
        }


class PlannedTraffic(Spec):
    """The part of a model that only predictions and alerts read."""

    traffic: TrafficSpec | None = None
    """The requests to plan for. Plans and reports then show speed, capacity and the price of a
    million tokens (docs/prediction.md).
    """
    slo: SloSpec | None = None
    """The objective. With `traffic`, a change that misses it is a risk of the report; with
    `monitoring.rules`, alerts watch it.
    """

    def batching(self, accelerator: Accelerator) -> Batching | None:  # noqa: ARG002 - engines with defaults for an accelerator read it
        """Return the batching of the engine on `accelerator`; None if no library predicts it."""
        return None
