"""Pod templates wherever Kubernetes and its serving operators keep them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from policies.engine.fields import Field
from policies.engine.resource import Resource, Subject
from policies.subjects.quantities import quantity

_TEMPLATES: dict[str, tuple[tuple[str, ...], ...]] = {
    "kubernetes:core:Pod": ((),),
    "kubernetes:core:ReplicationController": (("spec", "template"),),
    "kubernetes:apps:Deployment": (("spec", "template"),),
    "kubernetes:apps:StatefulSet": (("spec", "template"),),
    "kubernetes:apps:DaemonSet": (("spec", "template"),),
    "kubernetes:apps:ReplicaSet": (("spec", "template"),),
    "kubernetes:batch:Job": (("spec", "template"),),
    "kubernetes:batch:CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "kubernetes:leaderworkerset.x-k8s.io:LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
RAY_CLUSTERS = {
    "kubernetes:ray.io:RayCluster": ("spec",),
    "kubernetes:ray.io:RayService": ("spec", "rayClusterConfig"),
    "kubernetes:ray.io:RayJob": ("spec", "rayClusterSpec"),
}
_RUN_TO_END = {"kubernetes:batch:Job", "kubernetes:batch:CronJob", "kubernetes:ray.io:RayJob"}
VENDOR_RESOURCES = {"nvidia.com/gpu": "nvidia", "habana.ai/gaudi": "habana", "amd.com/gpu": "amd"}


def vendor_of(resource_name: str) -> str:
    """The vendor of an extended resource that counts accelerators, "" for any other; MIG slices count as NVIDIA's."""
    return VENDOR_RESOURCES.get(resource_name) or ("nvidia" if resource_name.startswith("nvidia.com/mig-") else "")


@dataclass(frozen=True)
class Container:
    """One container of a pod template; `init` is true for init containers, `sidecar` for those that keep running."""

    field: Field
    init: bool

    def at(self, *keys: str) -> Field:
        """The field below the container."""
        return self.field.at(*keys)

    @cached_property
    def arguments(self) -> tuple[Field, ...]:
        """Command and arguments, word by word. Raises UnknownFieldError."""
        return (*self.at("command").each(), *self.at("args").each())

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Command and arguments as text. Raises UnknownFieldError."""
        return tuple(each.text() for each in self.arguments)

    def option(self, *names: str) -> str | None:
        """The value of a command-line option, "" for one without a value, None where it is absent. The last one counts."""
        told: str | None = None
        for position, word in enumerate(self.words):
            name, equals, value = word.partition("=")
            if name in names:
                following = self.words[position + 1] if position + 1 < len(self.words) else ""
                told = value if equals else "" if following.startswith("-") else following
        return told

    def accelerators(self) -> Iterator[tuple[str, str, Field]]:
        """Vendor, `limits` or `requests`, and the field, for every accelerator that is asked for."""
        for side in ("limits", "requests"):
            for name, field in self.at("resources", side).entries():
                if vendor_of(name):
                    yield vendor_of(name), side, field

    def environment(self) -> dict[str, Field]:
        """The environment by name; each field is the whole entry. Raises UnknownFieldError."""
        return {each.at("name").text(): each for each in self.at("env").each()}


@dataclass(frozen=True)
class PodTemplate:
    """One pod template: `metadata` and `spec`, in which kind of resource, and what that resource is called."""

    resource: Resource
    metadata: Field
    spec: Field

    def at(self, *keys: str) -> Field:
        """The field below the pod's spec."""
        return self.spec.at(*keys)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Every container, init and ephemeral ones too. Raises UnknownFieldError."""
        main = tuple(Container(each, init=False) for each in self.at("containers").each())
        first = tuple(Container(each, init=True) for each in self.at("initContainers").each())
        return (*main, *first, *(Container(each, init=True) for each in self.at("ephemeralContainers").each()))

    @property
    def servers(self) -> tuple[Container, ...]:
        """Containers that listen in a pod that is meant to run for ever."""
        if self.runs_to_end:
            return ()
        return tuple(each for each in self.containers if not each.init and any(True for _ in each.at("ports").each()))

    @property
    def runs_to_end(self) -> bool:
        """Whether the pod is a batch job."""
        return self.resource.kind in _RUN_TO_END

    @cached_property
    def demand(self) -> dict[str, float]:
        """How many of each vendor's accelerators the containers ask for together. Raises UnknownFieldError, MalformedFieldError."""
        total: dict[str, float] = {}
        for container in self.containers:
            if not container.init:
                for vendor, side, field in container.accelerators():
                    if side == "limits":
                        total[vendor] = total.get(vendor, 0) + (quantity(field) or 0)
        return {vendor: count for vendor, count in total.items() if count}


def _templates(resource: Resource) -> Iterator[PodTemplate]:
    for keys in _TEMPLATES.get(resource.kind, ()):
        template = resource.at(*keys)
        if not template.absent:
            yield PodTemplate(resource, template.at("metadata"), template.at("spec"))
    if resource.kind in RAY_CLUSTERS:
        cluster = resource.at(*RAY_CLUSTERS[resource.kind])
        for group in (cluster.at("headGroupSpec"), *cluster.at("workerGroupSpecs").each()):
            template = group.at("template")
            if not template.absent:
                yield PodTemplate(resource, template.at("metadata"), template.at("spec"))


PODS = Subject("pods", frozenset([*_TEMPLATES, *RAY_CLUSTERS]), _templates)
