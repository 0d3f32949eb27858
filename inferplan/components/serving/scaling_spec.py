"""The settings of the number of a model's replicas: a number, or a range and the signals that it
follows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Discriminator, Field, PositiveFloat, PositiveInt, Tag
from pydantic.alias_generators import to_camel

from inferplan.components.spec import Spec, checked, rule

Signal: TypeAlias = Literal[
    "cpu",
    "waiting_requests",
    "kv_cache_percent",
    "queue_milliseconds",
    "requests_in_flight",
    "ongoing_requests",
]
Percent = Annotated[int, Field(ge=1, le=100)]


class ScalingSignals(Spec):
    """The signals that the number of replicas follows. With several signals, the one that needs the
    most replicas decides.
    """

    cpu: Percent | None = None
    """Average CPU use in percent of the CPU request, by a HorizontalPodAutoscaler. It needs no
    KEDA, and cannot be combined.
    """
    waiting_requests: PositiveInt | None = None
    """vLLM: waiting requests for each replica (vllm:num_requests_waiting)."""
    kv_cache_percent: Percent | None = None
    """vLLM: average use of the KV cache (vllm:kv_cache_usage_perc)."""
    queue_milliseconds: PositiveInt | None = None
    """Triton, also behind TensorRT-LLM and PyTriton: average time of a request in the queue
    (nv_inference_queue_duration_us).
    """
    requests_in_flight: PositiveInt | None = None
    """Any engine: requests for each replica that the gateway has sent and that are not answered
    yet.
    """
    ongoing_requests: PositiveFloat | None = None
    """Ray Serve: requests for each replica of an application (target_ongoing_requests), by Ray's
    own autoscaler.
    """

    @property
    def names(self) -> list[Signal]:
        return [name for name in SIGNALS if getattr(self, name) is not None]


SIGNALS: tuple[Signal, ...] = get_args(Signal)
PODS, MODEL = "PODS", "MODEL"
"""Marks in queries: the labels of the model's pods, and its label at the gateway."""


@dataclass(frozen=True)
class Query:
    """A PromQL query. An AverageValue is divided by the number of replicas, a Value is not."""

    text: str
    type: Literal["AverageValue", "Value"] = "AverageValue"


# A metric of the nginx gateway (inferplan/components/gateway/payload/requests.js).
IN_FLIGHT_QUERY = Query(f"sum(inferplan_gateway_requests_in_flight{{{MODEL}}})")

IN_FLIGHT = ScalingSignals.model_validate({"requestsInFlight": 8})
"""Of engines without a signal of their own."""
QUEUE_TIME = ScalingSignals.model_validate({"queueMilliseconds": 100})
"""Of engines behind Triton."""

POLLING_SECONDS = 15
"""Seconds between two questions of KEDA, as in vLLM's production stack (its KEDA example, 2026-08).
"""


def _cooldown(seconds: int) -> Iterator[str]:
    if seconds < 2 * POLLING_SECONDS:
        yield (
            f"{seconds} s is shorter than two measurements: KEDA reads the load every"
            f" {POLLING_SECONDS} s, so one quiet moment between two requests would stop a replica"
            f" that took minutes to load. Use at least {2 * POLLING_SECONDS}, or leave it out"
        )


class ScalingSpec(Spec):
    """A number of replicas that follows the load, between `min` and `max`."""

    min: Annotated[int, Field(ge=0, le=1000)]
    """The minimum number of replicas. With 0, the model stops when no requests come, and the next
    request at the gateway starts it.
    """
    max: Annotated[int, Field(ge=1, le=1000)]
    """The maximum number of replicas. The pool, the quota and the budget must have room for it."""
    on: ScalingSignals = ScalingSignals()
    """The signals that the number follows. Default: the engine's own."""
    cooldown_seconds: (
        Annotated[
            int,
            Field(le=86_400, json_schema_extra={"minimum": 2 * POLLING_SECONDS}),
            checked(_cooldown),
        ]
        | None
    ) = None
    """Seconds of low load before replicas stop, 30 at least. Default: the time that a replica needs
    to start, 5 minutes at least.
    """

    @rule
    def _bounds_and_signals_fit(self) -> Iterator[str]:
        if self.min > self.max:
            yield (
                f"min {self.min} is greater than max {self.max}. Raise max to at least"
                f" {max(1, self.min)}, or lower min"
            )
        others = [to_camel(name) for name in self.on.names if name != "cpu"]
        if self.on.cpu is not None and others:
            yield (
                f"on has cpu, which a HorizontalPodAutoscaler follows, and {', '.join(others)},"
                " which KEDA follows; two scalers would work against each other. Remove one of"
                " them"
            )
        if self.on.cpu is not None and self.min == 0:
            yield (
                "min is 0 and on is cpu, but no pod uses CPU at 0 replicas, so none would start"
                " again. Use min: 1, or other signals"
            )


def _form(value: object) -> str:
    return "range" if isinstance(value, dict | ScalingSpec) else "number"


Replicas: TypeAlias = Annotated[
    Annotated[int, Field(ge=0, le=1000), Tag("number")] | Annotated[ScalingSpec, Tag("range")],
    Discriminator(_form),
]


class ReplicaRange(Spec):
    """The number of a model's replicas, which is fixed or a range."""

    scaling_queries: ClassVar[Mapping[Signal, Query]] = {"requests_in_flight": IN_FLIGHT_QUERY}
    """The queries of the signals that KEDA reads from Prometheus."""

    replicas: Replicas = 1
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps
    the model's objects without pods.
    """

    @property
    def scaling(self) -> ScalingSpec | None:
        """The range that the number of replicas follows the load in; None for a fixed number."""
        return self.replicas if isinstance(self.replicas, ScalingSpec) else None

    @property
    def scaling_signals(self) -> dict[Signal, float]:
        """The signals that the number of replicas follows, with their targets; empty for a fixed
        number.
        """
        if self.scaling is None:
            return {}
        signals = self.scaling.on if self.scaling.on.names else self.default_signals
        return {name: getattr(signals, name) for name in signals.names}

    @property
    def min_replicas(self) -> int:
        """The minimum number of replicas, which run on day one."""
        return self.replicas.min if isinstance(self.replicas, ScalingSpec) else self.replicas

    @property
    def max_replicas(self) -> int:
        """The maximum number of replicas, which pools and quotas must have room for."""
        return self.replicas.max if isinstance(self.replicas, ScalingSpec) else self.replicas

    @property
    def default_signals(self) -> ScalingSignals:
        """The signals that the number of replicas follows if the user writes a range alone."""
        return IN_FLIGHT

    @property
    def signals(self) -> frozenset[Signal]:
        return frozenset({"cpu", *self.default_signals.names, "requests_in_flight"})
