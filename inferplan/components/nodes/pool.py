"""The base class of node pools: its fields, and the questions that every pool answers. It does not
know where nodes come from.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, StringConstraints, Tag

from inferplan.components.handles import ClusterTraits, NodeTarget
from inferplan.components.spec import Bytes, Cpu, DnsLabel, LabelKey, Spec, duplicates, rule
from inferplan.documents.errors import SpecError
from inferplan.hardware import accelerators, machines
from inferplan.hardware.accelerators import Accelerator, Taint, Vendor
from inferplan.hardware.machines import Capacity
from inferplan.kube.names import POOL_LABEL
from inferplan.kube.quantity import bytes_of, millicores_of

CPU_MACHINE = "m7i.2xlarge"
NO_ACCELERATOR = "cpu"
# The size that Kubernetes itself is tested to (kubernetes.io, Considerations for large clusters,
# read 2026-11).
MOST_NODES = 5000
_CPU_TYPE = (  # families of EC2 without accelerators, for editors
    r"^[cdimrtxz][0-9][a-z0-9-]*\.[0-9a-z]+$"
)
_HUGEPAGE = 2 * 2**20
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
_KUBELET_PODS = 110  # the kubelet's own default of maxPods

AcceleratorName = Annotated[
    str,
    AfterValidator(lambda name: accelerators.lookup(name).name),
    Field(
        description=(
            "An accelerator of inferplan/hardware/accelerators.toml, for example nvidia-l40s or"
            " gaudi-2."
        ),
        json_schema_extra=lambda schema: schema.update(enum=list(accelerators.accelerators())),
    ),
]


def _offer_cpu(schema: dict[str, Any]) -> None:
    schema["anyOf"][0]["enum"].insert(0, NO_ACCELERATOR)


PoolAccelerator = Annotated[
    AcceleratorName | None,
    BeforeValidator(lambda name: None if name == NO_ACCELERATOR else name),
    Field(json_schema_extra=_offer_cpu),
]
InstanceTypeName = Annotated[
    str,
    AfterValidator(lambda name: machines.machine(name).name),
    Field(
        description=(
            "An instance type, for example g6e.4xlarge or hls-gaudi2: one of the reference of"
            " accelerators, or any current EC2 type without accelerators."
        ),
        json_schema_extra=lambda schema: schema.update(
            anyOf=[{"enum": list(machines.machines())}, {"pattern": _CPU_TYPE}]
        ),
    ),
]
MigProfile = Annotated[
    str,
    StringConstraints(pattern=r"^([1-7])g\.([0-9]{1,3})gb$"),
    Field(description="A MIG profile as NVIDIA spells it, such as 3g.40gb."),
]
Zone = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
    Field(description="An availability zone, such as us-east-1a."),
]


@dataclass(frozen=True, kw_only=True)
class NodeLocation:
    """The region and the zones of nodes, which are spread over the zones in turn. Nodes without
    zones have no labels for them.
    """

    region: str = "simulated"
    zones: tuple[str, ...] = ()


class NodeTaint(Spec):
    """A taint of the pool's nodes, in the spelling of the Kubernetes API; pods that target the pool
    tolerate it.
    """

    key: LabelKey
    """The taint's key, such as `nvidia.com/gpu`."""
    value: Annotated[str, StringConstraints(pattern=_LABEL_VALUE)] = ""
    """The taint's value; empty by default."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """The effect on pods that do not tolerate the taint."""


class MachineShape(Spec):
    """The resources that one node offers to pods, as `kubectl get node -o
    jsonpath={.status.allocatable}` prints it.
    """

    cpu: Cpu
    """CPU that pods may use."""
    memory: Bytes
    """Memory that pods may use, huge pages not counted."""
    accelerators: Annotated[int, Field(ge=0, le=64)] = 0
    """Number of accelerators of the node."""
    hugepages2_mi: Annotated[Bytes | None, Field(alias="hugepages2Mi")] = None
    """2 MiB huge pages reserved at boot; none by default."""
    ephemeral_storage: Bytes = "50Gi"
    """Disk for container images, logs and emptyDir volumes."""

    @rule
    def _hugepages_are_whole_pages(self) -> Iterator[str]:
        if self.hugepages2_mi is not None and bytes_of(self.hugepages2_mi) % _HUGEPAGE:
            yield (
                f"hugepages2Mi {self.hugepages2_mi!r} is not a multiple of 2Mi. Round it to whole"
                " pages"
            )

    @property
    def allocatable(self) -> Capacity:
        return Capacity(
            cpu_millicores=millicores_of(self.cpu),
            memory_bytes=bytes_of(self.memory),
            accelerators=self.accelerators,
            hugepages_2mi_bytes=bytes_of(self.hugepages2_mi or "0"),
            ephemeral_storage_bytes=bytes_of(self.ephemeral_storage),
        )


InstanceTypeOrShape = Annotated[
    Annotated[InstanceTypeName, Tag("name")] | Annotated[MachineShape, Tag("shape")],
    Discriminator(lambda value: "shape" if isinstance(value, Mapping | MachineShape) else "name"),
]


class Pool(Spec, ABC):
    """The fields of every pool, and the questions that every pool answers. Platforms implement
    them; other code asks them.
    """

    accelerator: PoolAccelerator | None = None
    """The accelerator of each node; `cpu`, the default, for nodes without one."""
    taints: Annotated[list[NodeTaint], Field(max_length=16)] | None = None
    """Taints of the nodes; `[]` for none. Default: the accelerator's own, for example
    `nvidia.com/gpu=present:NoSchedule`.
    """
    runtime_class: DnsLabel | None = None
    """RuntimeClass of the accelerator's pods; `null` for the nodes' default runtime. Default:
    `habana` on Gaudi, none on NVIDIA.
    """
    pre_pull_images: bool = False
    """Pulls the models' images onto every node, also onto those that join later, and starts servers
    once the nodes have them.
    """

    stated: ClassVar[Mapping[str, Any]] = {"pre_pull_images": True}
    creates_nodes: ClassVar[bool] = True
    """True if this stack creates the nodes, and with them the RuntimeClasses of their accelerators.
    """
    is_fake: ClassVar[bool] = False
    """True if the pool consists of fake nodes, so that a rehearsal adds none."""
    size_field: ClassVar[str] = "nodes"
    """The field with the number of nodes."""

    @rule
    def _taints_are_distinct(self) -> Iterator[str]:
        if repeated := duplicates(f"{each.key}:{each.effect}" for each in self.taints or []):
            yield (
                f"taints names {', '.join(repeated)} more than once; a node holds one value for a"
                " key and effect, keep one"
            )

    @property
    @abstractmethod
    def min_nodes(self) -> int: ...

    @property
    @abstractmethod
    def max_nodes(self) -> int: ...

    @property
    def initial_nodes(self) -> int:
        """The number of nodes on the first day, before anything adds or removes one."""
        return self.min_nodes

    def sized(self, nodes: int) -> str:
        """Return the line of a stack file that gives the pool `nodes` nodes from the first day."""
        return f"{self.size_field}: {nodes}"

    def enlarged(self, nodes: int) -> str:
        """Return the line of a stack file that lets the pool grow to `nodes` nodes."""
        return self.sized(nodes)

    @property
    @abstractmethod
    def node_type(self) -> str | MachineShape:
        """The instance type of the nodes, or the smallest of several, defaults applied: its name in
        the table, or the shape that the user wrote.
        """

    @property
    @abstractmethod
    def capacity(self) -> Capacity:
        """The resources that one node offers to pods (`status.allocatable`)."""

    @property
    @abstractmethod
    def nominal_capacity(self) -> Capacity:
        """The resources of one node before the kubelet reserves its own (`status.capacity`)."""

    @property
    def mig_profile(self) -> str | None:
        """The MIG profile of the accelerators; None if they are whole."""
        return None

    @property
    def shares_devices(self) -> bool:
        """True if several containers may have one accelerator."""
        return False

    @property
    def shares_between_consumers(self) -> bool:
        """True if models of different consumers may share an accelerator."""
        return False

    @property
    def undivided_sharers(self) -> int:
        """The number of containers that share an accelerator whose memory nothing divides."""
        return 1

    @property
    def sharing_labels(self) -> dict[str, str]:
        """The labels of nodes whose accelerators are shared; empty if they are not."""
        return {}

    @property
    def hardware(self) -> Accelerator | None:
        """The accelerator of the nodes, or its slice; None for CPU nodes."""
        return None if self.accelerator is None else accelerators.lookup(self.accelerator)

    @property
    def vendor(self) -> Vendor | None:
        return None if self.hardware is None else self.hardware.vendor

    @property
    def usual_machine(self) -> str:
        return (
            CPU_MACHINE
            if self.accelerator is None
            else accelerators.lookup(self.accelerator).machine
        )

    @property
    def max_pods(self) -> int:
        return (
            _KUBELET_PODS
            if isinstance(self.node_type, MachineShape)
            else machines.machine(self.node_type).max_pods
        )

    def selector(self, name: str) -> dict[str, str]:
        """Return the labels that select the nodes of this pool, which is called `name`."""
        return {POOL_LABEL: name}

    def target(self, name: str) -> NodeTarget:
        """Return the handle for pods that run on this pool, which is called `name`."""
        hardware = self.hardware
        taints = () if hardware is None else (hardware.taint,)
        if self.taints is not None:
            taints = tuple(
                Taint(key=each.key, value=each.value, effect=each.effect) for each in self.taints
            )
        default = None if hardware is None else hardware.runtime_class
        return NodeTarget(
            pool=name,
            accelerator=hardware,
            node_selector=self.selector(name),
            taints=taints,
            capacity=self.capacity,
            nodes=self.max_nodes,
            # null in YAML and a missing key differ: null disables the default.
            runtime_class=(
                self.runtime_class if "runtime_class" in self.model_fields_set else default
            ),
        )

    def admits_any_pod(self, name: str) -> bool:
        """True if no taint keeps pods without tolerations away from the nodes of this pool, which
        is called `name`.
        """
        return all(each.effect == "PreferNoSchedule" for each in self.target(name).taints)

    @property
    def is_auto_mode(self) -> bool:
        """True if EKS Auto Mode starts and ends the nodes."""
        return False

    @property
    def device_plugins(self) -> tuple[str, ...]:
        return ()

    @property
    def directory_error(self) -> str | None:
        """Why the nodes cannot have a directory for models; None if they can."""
        return None

    def cluster_error(self, cluster: ClusterTraits) -> SpecError | None:
        """Return why the pool cannot belong to `cluster`, with a path below the pool; None if it
        can.
        """
        del cluster
        return None

    @property
    def extra_labels(self) -> dict[str, str]:
        """Labels that the platform or the user adds to the nodes."""
        return {}

    def location(self, cluster: NodeLocation) -> NodeLocation:
        """Return the location of fake nodes of the pool. `cluster` is that of the cluster."""
        # Existing nodes often have no zone labels; inventing some would promise a spread that the
        # real nodes cannot give.
        del cluster
        return NodeLocation()
