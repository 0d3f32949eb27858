"""The words that every kind of node pool is described with: accelerators, machines, zones, taints.

A pool of each provider builds on them; none of them knows where nodes come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from components.nodes import accelerators, machines
from components.spec import Bytes, Cpu, DnsLabel, Spec
from kube.quantity import bytes_of

CPU_MACHINE = "m7i.2xlarge"
MOST_NODES = 5000  # the size that Kubernetes itself is tested to (kubernetes.io, Considerations for large clusters, read 2026-11)
_HUGEPAGE = 2 * 2**20
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"

AcceleratorName = Annotated[
    str,
    AfterValidator(lambda name: accelerators.lookup(name).name),
    Field(
        description="An accelerator of docs/accelerators.md, such as nvidia-l40s or gaudi-2.",
        json_schema_extra=lambda schema: schema.update(enum=list(accelerators.accelerators())),
    ),
]
MachineName = Annotated[
    str,
    AfterValidator(lambda name: machines.machine(name).name),
    Field(
        description="A machine of docs/accelerators.md, such as g6e.4xlarge or hls-gaudi2.",
        json_schema_extra=lambda schema: schema.update(enum=list(machines.machines())),
    ),
]
Zone = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
    Field(description="An availability zone, such as us-east-1a."),
]


class NodeTaint(Spec):
    """A taint of the pool's nodes, in the spelling of the Kubernetes API; pods that target the pool tolerate it."""

    key: Annotated[
        str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
    ]
    """The taint's key, such as `nvidia.com/gpu`."""
    value: Annotated[str, StringConstraints(pattern=_LABEL_VALUE)] = ""
    """The taint's value; empty by default."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What happens to pods that do not tolerate the taint."""


class MachineShape(Spec):
    """What one node offers to pods, as `kubectl get node -o jsonpath={.status.allocatable}` prints it."""

    cpu: Cpu
    """CPU that pods may use."""
    memory: Bytes
    """Memory that pods may use, huge pages not counted."""
    accelerators: Annotated[int, Field(ge=0, le=64)] = 0
    """Accelerator cards of the node."""
    hugepages2_mi: Annotated[Bytes | None, Field(alias="hugepages2Mi")] = None
    """2 MiB huge pages reserved at boot; none by default."""
    ephemeral_storage: Bytes = "50Gi"
    """Disk for container images, logs and emptyDir volumes."""

    @model_validator(mode="after")
    def _hugepages_are_whole_pages(self) -> Self:
        if self.hugepages2_mi is not None and bytes_of(self.hugepages2_mi) % _HUGEPAGE:
            raise ValueError(f"hugepages2Mi {self.hugepages2_mi!r} is not a multiple of 2Mi. Round it to whole pages")
        return self


def _machine_kind(value: object) -> str:
    return "shape" if isinstance(value, Mapping | MachineShape) else "name"


MachineChoice = Annotated[
    Annotated[MachineName, Tag("name")] | Annotated[MachineShape, Tag("shape")],
    Discriminator(_machine_kind),
]


class Pool(Spec):
    """What every pool says of its nodes."""

    accelerator: AcceleratorName | None = None
    """The accelerator that each node carries; without it the pool is one of plain CPU nodes."""
    taints: Annotated[list[NodeTaint], Field(max_length=16)] | None = None
    """Taints of the nodes. By default the accelerator's own, such as `nvidia.com/gpu=present:NoSchedule`; `[]` says that there are none."""
    runtime_class: DnsLabel | None = None
    """RuntimeClass of the accelerator's pods. By default `habana` on Gaudi and none on NVIDIA; `null` says that the nodes' own will do."""
    pre_pull_images: bool = False
    """Pulls the models' images onto every node, also onto those that join later, and starts servers once the nodes have them."""

    @model_validator(mode="after")
    def _taints_are_distinct(self) -> Self:
        given = [(each.key, each.effect) for each in self.taints or []]
        twice = sorted({f"{key}:{effect}" for key, effect in given if given.count((key, effect)) > 1})
        if twice:
            raise ValueError(f"taints names {', '.join(twice)} more than once; a node holds one value for a key and effect, keep one")
        return self
