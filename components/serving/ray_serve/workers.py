"""The settings of a Ray cluster's head and workers, and how many workers there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from components.serving.ray_serve.applications import AnyApplication, LlmApplication, ServeAutoscaling
from components.serving.scaling_spec import ReplicaRange, ScalingSignals, Signal
from components.spec import Bytes, Cpu, DnsName, Spec

_IDLE_SECONDS = 60
_SIGNALS = ScalingSignals.model_validate({"ongoingRequests": 2})


class WorkerAutoscaling(Spec):
    """Ray's own autoscaler of worker pods, between `replicas` and this."""

    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    """Maximum number of worker pods."""
    idle_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = _IDLE_SECONDS
    """Seconds that a worker is idle before it is removed."""


class GcsFaultTolerance(Spec):
    """Keeps the cluster's state in Redis, so that workers continue to serve while the head is replaced."""

    redis_address: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]+:[1-9][0-9]{0,4}$", max_length=260)]
    """host:port."""
    password_secret: DnsName | None = None
    """A Secret of the inference namespace with the key `password`."""

    @property
    def redis(self) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = self.redis_address.rpartition(":")
        return host, int(port)


class HeadResources(Spec):
    """The requests of the head, which has no accelerator and serves no request."""

    cpu: Cpu = "2"
    """CPU of the head."""
    memory: Bytes = "8Gi"
    """Memory of the head."""


class RayReplicas(ReplicaRange):
    """The number of worker pods, which Ray's own autoscaler changes: by `replicas` or by `workerAutoscaling`."""

    if TYPE_CHECKING:

        @property
        def applications(self) -> Mapping[str, AnyApplication]:
            """The field of the spec."""
            ...

        @property
        def worker_autoscaling(self) -> WorkerAutoscaling | None:
            """The field of the spec."""
            ...

        @property
        def accelerators_per_pod(self) -> int:
            """The field of the spec."""
            ...

    @property
    def max_replicas(self) -> int:
        """The maximum number of worker pods."""
        return super().max_replicas if self.worker_autoscaling is None else self.worker_autoscaling.max_replicas

    @property
    def scales_workers(self) -> bool:
        """True if Ray's autoscaler adds and removes workers."""
        return self.scaling is not None or self.worker_autoscaling is not None

    @property
    def scaled_applications(self) -> dict[str, AnyApplication]:
        """The applications; an LLM without limits of its own has as many replicas as the range of workers can run."""
        if self.scaling is None:
            return dict(self.applications)
        return {
            name: self._scaled(app) if isinstance(app, LlmApplication) and app.autoscaling is None else app
            for name, app in self.applications.items()
        }

    def _scaled(self, app: LlmApplication) -> LlmApplication:
        low, high = (max(1, count * self.accelerators_per_pod // app.world_size) for count in (self.min_replicas, self.max_replicas))
        return app.model_copy(
            update={
                "autoscaling": ServeAutoscaling.model_validate(
                    {
                        "minReplicas": low,
                        "maxReplicas": high,
                        "targetOngoingRequests": self.scaling_signals["ongoing_requests"],
                        "downscaleDelaySeconds": None if self.scaling is None else self.scaling.cooldown_seconds,
                    }
                )
            }
        )

    @property
    def idle_timeout_seconds(self) -> int:
        """Seconds that a worker is idle before Ray removes it."""
        if self.worker_autoscaling is not None:
            return self.worker_autoscaling.idle_timeout_seconds
        return _IDLE_SECONDS if self.scaling is None or self.scaling.cooldown_seconds is None else max(1, self.scaling.cooldown_seconds)

    @property
    def default_signals(self) -> ScalingSignals:
        return _SIGNALS

    @property
    def signals(self) -> frozenset[Signal]:
        """Ray's own; no other scaler may change what Ray's autoscaler changes."""
        return frozenset({"ongoing_requests"})
