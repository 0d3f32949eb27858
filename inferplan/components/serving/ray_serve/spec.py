"""The settings of a Ray Serve service: its applications, its worker pods (`replicas`), and the
replacement of its cluster.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import ceil
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints
from pydantic.alias_generators import to_camel

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.demand import demand_of
from inferplan.components.serving.ray_serve.applications import (
    IDLE_SECONDS,
    AnyApplication,
    ApplicationName,
    GcsFaultTolerance,
    HeadResources,
    LlmApplication,
    ServeAutoscaling,
    WorkerAutoscaling,
)
from inferplan.components.serving.scaling_spec import ScalingSignals, Signal
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.serving.vllm.engine_args import VLLM_RESERVED_ENV
from inferplan.components.spec import FieldError, rule
from inferplan.documents.errors import SpecError
from inferplan.kube.quantity import bytes_of, millicores_of

_SIGNALS = ScalingSignals.model_validate({"ongoingRequests": 2})


class RayServeSpec(ServedModel):
    """Ray Serve applications on a Ray cluster of their own, run by KubeRay."""

    # KubeRay adds six characters to the service's name for a cluster's name, which has at most 53
    # (utils/constant.go, v1.7.0).
    longest_name: ClassVar[int] = 47
    longest_name_of: ClassVar[str] = "KubeRay's names for its clusters"
    reserved_env: ClassVar[Mapping[str, str]] = VLLM_RESERVED_ENV
    keeps_objects: ClassVar[bool] = True

    engine: Literal["ray-serve"]
    ray_version: Annotated[str, StringConstraints(pattern=r"^2\.[0-9]{1,3}\.[0-9]{1,3}$")]
    """The version of Ray in the image."""
    applications: Annotated[
        dict[ApplicationName, AnyApplication], Field(min_length=1, max_length=32)
    ]
    """Applications by name, each with a path of its own."""
    worker_autoscaling: WorkerAutoscaling | None = None
    gcs_fault_tolerance: GcsFaultTolerance | None = None
    head: HeadResources = HeadResources()
    upgrade_strategy: Literal["NewCluster", "None"] | None = None
    """Default: NewCluster if the pool has room for a second set of workers, else None: a second
    cluster would wait for accelerators indefinitely, so the old one has to be deleted first.
    """

    @rule
    def _applications_and_rollout_fit(self) -> Iterator[FieldError | str]:
        taken = [
            f"{one} and {other} both answer under {first.route_prefix}"
            for (one, first), (other, second) in combinations(self.applications.items(), 2)
            if first.route_prefix == second.route_prefix
        ]
        if taken:
            yield f"{'; '.join(taken)}. Give each application a routePrefix of its own."
        if len(self.llms) > 1:
            yield (
                f"{', '.join(self.llms)} are all of kind llm, but the weights belong to one"
                " model. Declare each one as a separate model."
            )
        if self.rollout == "surge":
            yield (
                "Ray Serve replaces whole clusters; surge does not apply. Use upgradeStrategy:"
                " NewCluster."
            )
        if self.scaling is not None and self.scaling.min == 0:
            yield FieldError(
                "min is 0, but Ray's proxies, which take the requests, run on the workers. Use"
                " min: 1",
                "replicas",
                "min",
            )
        if self.worker_autoscaling is not None and self.scaling is not None:
            yield "replicas is a range and workerAutoscaling is another. Remove workerAutoscaling"
        if self.max_replicas < self.min_replicas:
            yield (
                f"workerAutoscaling.maxReplicas is {self.max_replicas}, below replicas"
                f" {self.min_replicas}. Raise it."
            )
        if errors := [*self._too_large(), *self._too_many()]:
            yield "; ".join(errors)

    @property
    def max_replicas(self) -> int:
        return (
            super().max_replicas
            if self.worker_autoscaling is None
            else self.worker_autoscaling.max_replicas
        )

    @property
    def scales_workers(self) -> bool:
        return self.scaling is not None or self.worker_autoscaling is not None

    @property
    def scaled_applications(self) -> dict[str, AnyApplication]:
        """The applications; an LLM without limits of its own has as many replicas as the range of
        workers can run.
        """
        if self.scaling is None:
            return dict(self.applications)
        return {
            name: (
                self._scaled(app)
                if isinstance(app, LlmApplication) and app.autoscaling is None
                else app
            )
            for name, app in self.applications.items()
        }

    def _scaled(self, app: LlmApplication) -> LlmApplication:
        low, high = (
            max(1, count * self.accelerators_per_pod // app.world_size)
            for count in (self.min_replicas, self.max_replicas)
        )
        bounds = {
            "minReplicas": low,
            "maxReplicas": high,
            "targetOngoingRequests": self.scaling_signals["ongoing_requests"],
        }
        delay = {
            "downscaleDelaySeconds": None if self.scaling is None else self.scaling.cooldown_seconds
        }
        return app.model_copy(
            update={"autoscaling": ServeAutoscaling.model_validate({**bounds, **delay})}
        )

    @property
    def idle_timeout_seconds(self) -> int:
        if self.worker_autoscaling is not None:
            return self.worker_autoscaling.idle_timeout_seconds
        return (
            IDLE_SECONDS
            if self.scaling is None or self.scaling.cooldown_seconds is None
            else max(1, self.scaling.cooldown_seconds)
        )

    @property
    def default_signals(self) -> ScalingSignals:
        return _SIGNALS

    @property
    def signals(self) -> frozenset[Signal]:
        """Ray's own; no other scaler may change what Ray's autoscaler changes."""
        return frozenset({"ongoing_requests"})

    @property
    def companions(self) -> Mapping[str, str]:
        return {"cpu": self.head.cpu, "memory": self.head.memory, "pods": "1"}

    @property
    def operator_services(self) -> tuple[str, ...]:
        return ("head-svc", "serve-svc")

    @property
    def accelerators_per_pod(self) -> int:
        """Accelerators of each worker: as written, else as many as the largest replica of a
        deployment needs.
        """
        return self.accelerators or max([1, *(ceil(count) for _, count, _ in self._needs())])

    @property
    def spans_nodes(self) -> bool:
        """True if a replica of an LLM needs more accelerators than one worker has, so that its
        stages are on several workers.
        """
        return any(app.world_size > self.accelerators_per_pod for app in self.llms.values())

    @property
    def reader_of_weights(self) -> str | None:
        for name, app in self.applications.items():
            if isinstance(app, LlmApplication):
                return f"applications.{name} of kind llm"
            if path := next(iter(app.paths), None):
                return f"applications.{name}.{to_camel(path)}"
        return None

    @property
    def authenticates(self) -> bool:
        """True if this Ray requires a token for its control (2.52 and newer)."""
        return tuple(map(int, self.ray_version.split("."))) >= (2, 52)

    @property
    def takes_prompts(self) -> bool:
        """True if one of the applications has OpenAI's protocol; the inputs of others are not
        known.
        """
        return bool(self.llms)

    @property
    def llms(self) -> dict[str, LlmApplication]:
        return {
            name: app for name, app in self.applications.items() if isinstance(app, LlmApplication)
        }

    def upgrade(
        self, target: NodeTarget, accelerators_of_others: int
    ) -> tuple[Literal["NewCluster", "None"], str]:
        """Return how KubeRay replaces the cluster, and why: as written, else NewCluster if the pool
        has room for a second set of workers.
        """
        if self.upgrade_strategy is not None:
            return self.upgrade_strategy, "as the stack says"
        spare = self.spare_accelerators(target, accelerators_of_others)
        total = target.nodes * target.capacity.accelerators
        count = (
            f"pool {target.pool} has {total} accelerators, of which other models hold"
            f" {accelerators_of_others} and these workers {self.most_accelerators}"
        )
        if self.most_accelerators <= spare:
            return "NewCluster", f"{count}: the {spare} left can hold a second set of workers"
        return (
            "None",
            (
                f"{count}: the {max(0, spare)} left cannot hold a second set of workers. To roll"
                " out a change, delete the RayService"
            ),
        )

    def queue_errors(self) -> Iterator[SpecError]:
        if self.scales_workers:
            field = "workerAutoscaling" if self.scaling is None else "replicas"
            remedy = "Remove workerAutoscaling" if self.scaling is None else "Write a number"
            yield SpecError(
                (field,),
                f"Kueue rejects a RayService that scales its own workers (v0.19). {remedy}, or"
                " remove queue",
            )

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield what Ray cannot use of the pool, and workers that never fit it."""
        if target.accelerator is not None and target.accelerator.device_class:
            yield SpecError(
                ("pool",),
                f"KubeRay counts only devices of device plugins, but pool {target.pool!r} has"
                " devices: dra. Use a pool with devices: devicePlugin, or engine: vllm.",
            )
        total = target.nodes * target.capacity.accelerators
        if self.worker_autoscaling is not None and self.most_accelerators > total:
            yield SpecError(
                ("workerAutoscaling", "maxReplicas"),
                f"{self.max_replicas} workers need {self.most_accelerators} accelerators and pool"
                f" {target.pool!r} has {total}. Lower maxReplicas, or enlarge the pool.",
            )
        if (
            target.accelerator is not None
            and target.accelerator.vendor.ray_resource != "GPU"
            and self.takes_prompts
        ):
            yield SpecError(
                ("applications", next(iter(self.llms)), "kind"),
                f"llm requests GPUs from Ray, and pool {target.pool!r} has"
                f" {target.accelerator.name}. Use kind: custom, or engine: vllm.",
            )

    def shared_pool_errors(
        self, target: NodeTarget, accelerators_of_others: int
    ) -> Iterator[SpecError]:
        """Yield a second cluster, or a head, for which the pool has no room."""
        spare = self.spare_accelerators(target, accelerators_of_others)
        if self.upgrade_strategy == "NewCluster" and self.most_accelerators > spare:
            yield SpecError(
                ("upgradeStrategy",),
                f"NewCluster starts {self.max_replicas} x {self.accelerators_per_pod} accelerators"
                f" in addition to those that run, and pool {target.pool!r} has {spare} free: it"
                " would wait indefinitely. Enlarge the pool, or leave upgradeStrategy out",
            )
        if spare <= 0 and self.min_replicas:
            yield from self._head_errors(target)

    def _head_errors(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield resources of the head that do not fit a node whose accelerators are all used by
        workers.
        """
        demand, capacity = demand_of(self, self.accelerators_per_pod, target), target.capacity
        workers = capacity.accelerators // self.accelerators_per_pod
        # KubeRay adds a container for the autoscaler to the head's pod (common/pod.go, v1.7.0).
        cpu, memory = (500, 512 * 2**20) if self.scales_workers else (0, 0)
        left = (
            (
                "cpu",
                cpu + millicores_of(self.head.cpu),
                capacity.cpu_millicores - workers * millicores_of(demand["cpu"]),
                1,
                "m",
            ),
            (
                "memory",
                memory + bytes_of(self.head.memory),
                capacity.memory_bytes - workers * bytes_of(demand["memory"]),
                2**20,
                "Mi",
            ),
        )
        for resource, request, free, unit, shown in left:
            if request > free:
                yield SpecError(
                    ("head", resource),
                    f"the head requests {request // unit}{shown} and the workers of a full node of"
                    f" pool {target.pool!r} leave {max(0, free) // unit}{shown}, so it would never"
                    f" start. Lower head.{resource} or resources.{resource}, or enlarge the pool.",
                )

    def _needs(self) -> Iterator[tuple[str, float, int]]:
        for name, app in self.applications.items():
            if isinstance(app, LlmApplication):
                most = 1 if app.autoscaling is None else app.autoscaling.max_replicas
                yield (
                    f"applications.{name}",
                    app.tensor_parallel_size,
                    most * app.pipeline_parallel_size,
                )
            else:
                for key, each in app.deployments.items():
                    yield (
                        f"applications.{name}.deployments.{key}",
                        each.accelerators or 0,
                        each.most_replicas,
                    )

    def _too_large(self) -> Iterator[str]:
        for where, count, _ in self._needs():
            if count > self.accelerators_per_pod:
                yield (
                    f"{where} needs {count:g} accelerators in one worker and a worker has"
                    f" {self.accelerators_per_pod}. Raise accelerators, or shard less."
                )

    def _too_many(self) -> Iterator[str]:
        wanted = sum(count * replicas for _, count, replicas in self._needs())
        if self.max_replicas and wanted > self.max_replicas * self.accelerators_per_pod:
            yield (
                f"the deployments need up to {wanted:g} accelerators and {self.max_replicas}"
                f" workers hold {self.max_replicas * self.accelerators_per_pod}; raise replicas or"
                " accelerators, or lower the deployments' replicas"
            )
