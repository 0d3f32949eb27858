"""The settings of every model behind a tritonserver that inferplan starts: ports, metrics, and
loading once, at start.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from inferplan.components.serving.scaling_spec import (
    PODS,
    QUEUE_TIME,
    Query,
    ReplicaRange,
    ScalingSignals,
    Signal,
)
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.spec import Spec, rule

QUEUE_QUERIES: Mapping[Signal, Query] = {
    **ReplicaRange.scaling_queries,
    "queue_milliseconds": Query(
        f"sum(rate(nv_inference_queue_duration_us{{{PODS}}}[2m])) "
        f"/ clamp_min(sum(rate(nv_inference_request_success{{{PODS}}}[2m])), 0.001) / 1000",
        "Value",
    ),
}

Port = Annotated[int, Field(ge=1024, le=65_535)]


class TritonPorts(Spec):
    """The ports of the server. Default: Triton's own."""

    http: Port = 8000
    """The port of the HTTP protocol."""
    grpc: Port = 8001
    """The port of gRPC."""
    metrics: Port = 8002
    """The port that Prometheus reads."""

    @rule
    def _ports_differ(self) -> Iterator[str]:
        if len({self.http, self.grpc, self.metrics}) < 3:
            yield (
                f"http {self.http}, grpc {self.grpc} and metrics {self.metrics} are not three"
                " ports. Use each once."
            )


class TritonMetrics(Spec):
    """Metrics in addition to the counters of the server."""

    histogram_latencies: bool = False
    """Adds histograms of latencies; for models that stream, the latency of the first response
    (Triton 24.12 and newer).
    """
    summary_latencies: bool = False
    """Adds quantiles of latencies."""
    interval_ms: Annotated[int, Field(ge=100, le=600_000)] | None = None
    """Interval of the metrics of accelerators and CPU. Default: 2000."""


class TritonServed(ServedModel):
    """A model behind a tritonserver that inferplan starts. Field names and values are Triton's own."""

    scaling_queries: ClassVar[Mapping[Signal, Query]] = QUEUE_QUERIES

    ports: TritonPorts = TritonPorts()
    metrics: TritonMetrics = TritonMetrics()
    model_load_thread_count: Annotated[int, Field(ge=1, le=64)] = 4
    """Threads that load models in parallel; 4 is Triton's own default."""

    @property
    def default_signals(self) -> ScalingSignals:
        return QUEUE_TIME

    @property
    def has_whole_configs(self) -> bool:
        """True if every config.pbtxt is complete, so that Triton must not derive missing parts from
        the models.
        """
        return True

    @property
    def server_options(self) -> Sequence[str]:
        """Arguments of tritonserver that depend on the engine."""
        return ()
