"""What a user writes about a Ray Serve service: its applications, its workers, and how its cluster is replaced.

`replicas` are worker pods; how many replicas a deployment has inside them is Serve's business. The rehearsal runs no KubeRay
operator: it makes the pods that KubeRay would make, and nobody there knows whether an application is healthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from components.serving.demand import demand_of
from components.serving.ray_serve.applications import AnyApplication, ApplicationName, CustomApplication, LlmApplication
from components.serving.ray_serve.workers import GcsFaultTolerance, HeadResources, RayReplicas, WorkerAutoscaling
from components.serving.served_model import ServedModel
from components.spec import FieldError, SpecError
from kube.quantity import bytes_of, millicores_of

if TYPE_CHECKING:
    from components.handles import NodeTarget


class RayServeSpec(RayReplicas, ServedModel):
    """Ray Serve applications on a Ray cluster of their own, run by KubeRay."""

    # KubeRay makes a cluster's name of the service's and six characters, and takes 53 (utils/constant.go, v1.7.0).
    longest_name: ClassVar[int] = 47
    longest_name_of: ClassVar[str] = "KubeRay's names for its clusters"
    keeps_objects: ClassVar[bool] = True

    engine: Literal["ray-serve"]
    ray_version: Annotated[str, StringConstraints(pattern=r"^2\.[0-9]{1,3}\.[0-9]{1,3}$")]
    """The version of Ray in the image."""
    applications: Annotated[dict[ApplicationName, AnyApplication], Field(min_length=1, max_length=32)]
    """Applications by name, each under a path of its own."""
    worker_autoscaling: WorkerAutoscaling | None = None
    gcs_fault_tolerance: GcsFaultTolerance | None = None
    head: HeadResources = HeadResources()
    upgrade_strategy: Literal["NewCluster", "None"] | None = None
    """By default NewCluster where the pool holds a second set of workers beside the first, else None: a second cluster would wait
    for cards for ever, so the old one has to be deleted first."""

    @model_validator(mode="after")
    def _routes_are_apart(self) -> Self:
        taken = [
            f"{one} and {other} both answer under {first.route_prefix}"
            for (one, first), (other, second) in combinations(self.applications.items(), 2)
            if first.route_prefix == second.route_prefix
        ]
        if taken:
            raise ValueError(f"{'; '.join(taken)}; give each application a routePrefix of its own")
        return self

    @model_validator(mode="after")
    def _one_llm(self) -> Self:
        llms = [name for name, app in self.applications.items() if isinstance(app, LlmApplication)]
        if len(llms) > 1:
            raise ValueError(f"{', '.join(llms)} are all of kind llm and the weights are one model's; make each a service of its own")
        return self

    @model_validator(mode="after")
    def _clusters_are_replaced_whole(self) -> Self:
        if self.rollout == "surge":
            raise ValueError(
                "rollout: surge is for pods that are replaced one by one, and Ray's clusters are replaced whole; write upgradeStrategy: NewCluster"
            )
        return self

    @model_validator(mode="after")
    def _workers_scale_upwards(self) -> Self:
        if self.scaling is not None and self.scaling.min == 0:
            raise FieldError("min is 0, but Ray's proxies, which take the requests, run on the workers. Use min: 1", "replicas", "min")
        if self.worker_autoscaling is None:
            return self
        if self.scaling is not None:
            raise ValueError("replicas is a range and workerAutoscaling is another. Remove workerAutoscaling")
        if self.worker_autoscaling.max_replicas < self.min_replicas:
            raise ValueError(
                f"workerAutoscaling.maxReplicas is {self.worker_autoscaling.max_replicas}, below replicas {self.min_replicas}; raise it"
            )
        return self

    @model_validator(mode="after")
    def _deployments_find_their_cards(self) -> Self:
        faults = [*self._too_large(), *self._too_many()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def companions(self) -> Mapping[str, str]:
        """The head."""
        return {"cpu": self.head.cpu, "memory": self.head.memory, "pods": "1"}

    @property
    def operator_services(self) -> tuple[str, ...]:
        """What KubeRay calls the services of a cluster."""
        return ("head-svc", "serve-svc")

    @property
    def accelerators_per_pod(self) -> int:
        """Accelerators of each worker: as written, else as many as the largest replica of a deployment needs."""
        return self.accelerators or max([1, *(ceil(cards) for _, cards, _ in self._needs())])

    @property
    def spans_nodes(self) -> bool:
        """True if a replica of an LLM needs more accelerators than one worker has, so that its stages are on several workers."""
        return any(isinstance(app, LlmApplication) and app.world_size > self.accelerators_per_pod for app in self.applications.values())

    @property
    def reader_of_weights(self) -> str | None:
        """An application of kind llm, or one with a path below the weights' directory."""
        for name, app in self.applications.items():
            if isinstance(app, LlmApplication):
                return f"applications.{name} of kind llm"
            if path := next(iter(app.paths), None):
                return f"applications.{name}.{to_camel(path)}"
        return None

    @property
    def authenticates(self) -> bool:
        """Whether this Ray asks for a token where it is controlled (2.52 and newer)."""
        return tuple(map(int, self.ray_version.split("."))) >= (2, 52)

    @property
    def takes_prompts(self) -> bool:
        """Whether one of its applications speaks OpenAI's protocol; what others take is theirs to say."""
        return any(isinstance(app, LlmApplication) for app in self.applications.values())

    @property
    def most_accelerators(self) -> int:
        """Accelerators of all workers at their most."""
        return self.accelerators_per_pod * self.most_workers

    def upgrade(self, target: NodeTarget, accelerators_of_others: int) -> tuple[Literal["NewCluster", "None"], str]:
        """How KubeRay replaces the cluster, and why: as written, else by whether the pool has cards to spare for a second set of workers."""
        if self.upgrade_strategy is not None:
            return self.upgrade_strategy, "as the stack says"
        held = target.nodes * target.capacity.accelerators
        spare = held - accelerators_of_others - self.most_accelerators
        count = f"pool {target.pool} has {held} accelerators, of which other models hold {accelerators_of_others} and these workers {self.most_accelerators}"
        if self.most_accelerators <= spare:
            return "NewCluster", f"{count}: the {spare} left take a second set beside the first"
        return "None", f"{count}: the {max(0, spare)} left do not take a second set, so delete the RayService to roll a change out"

    def queue_errors(self) -> Iterator[SpecError]:
        """Workers that come and go by Ray's own wish."""
        if self.scales_workers:
            field = "workerAutoscaling" if self.scaling is None else "replicas"
            remedy = "Remove workerAutoscaling" if self.scaling is None else "Write a number"
            yield SpecError((field,), f"Kueue rejects a RayService that scales its own workers (v0.19). {remedy}, or remove queue")

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """An application that asks for other cards than the pool's, and workers that the pool never holds."""
        held = target.nodes * target.capacity.accelerators
        if self.worker_autoscaling is not None and self.most_accelerators > held:
            yield SpecError(
                ("workerAutoscaling", "maxReplicas"),
                f"{self.most_workers} workers need {self.most_accelerators} accelerators and pool {target.pool!r} has {held}; lower maxReplicas, or enlarge the pool",
            )
        if target.accelerator is not None and target.accelerator.vendor != "nvidia" and self.takes_prompts:
            name = next(name for name, app in self.applications.items() if isinstance(app, LlmApplication))
            yield SpecError(
                ("applications", name, "kind"),
                f"llm requests GPUs from Ray, and pool {target.pool!r} has {target.accelerator.name}; use kind: custom, or engine: vllm",
            )

    def shared_pool_errors(self, target: NodeTarget, accelerators_of_others: int) -> Iterator[SpecError]:
        """A second cluster, or a head, for which the pool has no room beside workers and other models."""
        spare = target.nodes * target.capacity.accelerators - accelerators_of_others - self.most_accelerators
        if self.upgrade_strategy == "NewCluster" and self.most_accelerators > spare:
            yield SpecError(
                ("upgradeStrategy",),
                f"NewCluster starts {self.most_workers} x {self.accelerators_per_pod} accelerators beside those that run, and pool {target.pool!r} has {spare} to spare: "
                "it would wait indefinitely. Enlarge the pool, or leave upgradeStrategy out",
            )
        if spare <= 0 and self.min_replicas:
            yield from self._head_beside_workers(target)

    def _head_beside_workers(self, target: NodeTarget) -> Iterator[SpecError]:
        """What the head requests of a node whose accelerators workers hold all."""
        demand, capacity = demand_of(self, self.accelerators_per_pod, target), target.capacity
        workers = capacity.accelerators // self.accelerators_per_pod
        # KubeRay's container for the autoscaler stands beside the head (common/pod.go, v1.7.0).
        cpu, memory = (500, 512 * 2**20) if self.scales_workers else (0, 0)
        left = (
            ("cpu", cpu + millicores_of(self.head.cpu), capacity.cpu_millicores - workers * millicores_of(demand["cpu"]), 1, "m"),
            ("memory", memory + bytes_of(self.head.memory), capacity.memory_bytes - workers * bytes_of(demand["memory"]), 2**20, "Mi"),
        )
        for resource, asked, free, unit, shown in left:
            if asked > free:
                yield SpecError(
                    ("head", resource),
                    f"the head requests {asked // unit}{shown} and the workers of a full node of pool {target.pool!r} leave {max(0, free) // unit}{shown}, "
                    f"so it would never start; lower head.{resource} or resources.{resource}, or enlarge the pool",
                )

    def _needs(self) -> Iterator[tuple[str, float, int]]:
        for name, app in self.applications.items():
            if isinstance(app, LlmApplication):
                most = 1 if app.autoscaling is None else app.autoscaling.max_replicas
                yield f"applications.{name}", app.tensor_parallel_size, most * app.pipeline_parallel_size
            elif isinstance(app, CustomApplication):
                for key, each in app.deployments.items():
                    yield f"applications.{name}.deployments.{key}", each.accelerators or 0, each.most_replicas

    def _too_large(self) -> Iterator[str]:
        for where, cards, _ in self._needs():
            if cards > self.accelerators_per_pod:
                yield f"{where} needs {cards:g} accelerators in one worker and a worker has {self.accelerators_per_pod}; raise accelerators, or shard less"

    def _too_many(self) -> Iterator[str]:
        wanted = sum(cards * replicas for _, cards, replicas in self._needs())
        if self.max_replicas and wanted > self.most_workers * self.accelerators_per_pod:
            yield (
                f"the deployments need up to {wanted:g} accelerators and {self.most_workers} workers hold {self.most_workers * self.accelerators_per_pod}; "
                "raise replicas or accelerators, or lower the deployments' replicas"
            )
