"""The nodes of an audit: a file that states pools of nodes becomes fake nodes, and recorded nodes become such a file."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from inferplan.audit.documents import values_in
from inferplan.audit.manifest import InputError, Object
from inferplan.kube.names import FAKE_NODE, HOSTNAME_LABEL
from inferplan.kube.quantity import canonical
from inferplan.stackfile.errors import InvalidStack, LocatedError
from inferplan.stackfile.messages import errors_of

KIND: Final = "Fleet"
MAX_NODES = 1000
_LABELS = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
LOAD_NAMESPACE: Final = "inferplan-load"
"""The namespace of the pods of others."""
_DEFAULTS = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "100Gi", "pods": "110"}

Quantity = Annotated[str | int, AfterValidator(lambda value: canonical(str(value)) and value)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Taint(_Strict):
    """A taint of every node of a pool."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Devices(_Strict):
    """Devices of every node of a pool that a driver offers to claims (DRA)."""

    driver: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")
    count: int = Field(ge=1, le=128)
    attributes: dict[str, str | bool | int | dict[Literal["version"], str]] = Field(default_factory=dict)
    capacity: dict[str, Quantity] = Field(default_factory=dict)


class DeviceClass(_Strict):
    """A class of devices by a CEL expression; each driver has one of its own name without being listed."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")
    expressions: tuple[str, ...] = ()


class NodePool(_Strict):
    """Nodes of one shape; quantities that are not stated are those of a node with 32 CPUs."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,50}[a-z0-9])?$")
    count: int = Field(ge=0, le=MAX_NODES)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, Quantity] = Field(default_factory=dict)
    unschedulable: bool = False
    devices: tuple[Devices, ...] = ()


class Load(_Strict):
    """Pods of others on nodes of `pool`, each with `requests`."""

    pool: str
    pods: int = Field(ge=1, le=MAX_NODES * 100)
    requests: dict[str, Quantity]


class Fleet(_Strict):
    """The content of a nodes file."""

    kind: Literal["Fleet"] = KIND
    pools: list[NodePool] = Field(min_length=1)
    load: tuple[Load, ...] = ()
    device_classes: tuple[DeviceClass, ...] = Field(default=(), alias="deviceClasses")

    @model_validator(mode="after")
    def _check(self) -> Self:
        unknown = sorted({each.pool for each in self.load} - {each.name for each in self.pools})
        many = ["The pools have more than 1,000 nodes. Lower a count."] if sum(each.count for each in self.pools) > MAX_NODES else []
        if problems := [*many, *(f"load names the unknown pool {each!r}. Correct the name." for each in unknown)]:
            raise ValueError(" ".join(problems))
        return self


def read_fleet(content: bytes, name: str) -> Fleet:
    """The pools in the file `name`. Raises InputError with every error."""
    values = values_in(content, name)
    try:
        return Fleet.model_validate(values)
    except ValidationError as error:
        located = (LocatedError(each.path, each.message, None) for each in errors_of(error, values, Fleet, lambda _path: None))
        raise InputError(f"{line} See docs/audit.md for the fields." for line in InvalidStack(name, located).lines) from error


def node_objects(fleet: Fleet) -> list[Object]:
    """The fake nodes of `fleet`, and what drivers publish about their devices: a DeviceClass, and a ResourceSlice for each node."""
    nodes = [(pool, f"{pool.name}-{index}") for pool in fleet.pools for index in range(pool.count)]
    drivers = {each.driver: (f"device.driver == '{each.driver}'",) for pool in fleet.pools for each in pool.devices}
    classes = drivers | {each.name: each.expressions for each in fleet.device_classes}
    selectors = {name: [{"cel": {"expression": each}} for each in several] for name, several in classes.items()}
    slices = [_slice(f"{node}-{number}", node, each) for pool, node in nodes for number, each in enumerate(pool.devices)]
    return [
        *(_node(node, pool) for pool, node in nodes),
        *(_published("DeviceClass", name, selectors=each) for name, each in selectors.items()),
        *slices,
    ]


def _published(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _slice(name: str, node: str, devices: Devices) -> Object:
    names = {bool: "bool", int: "int", str: "string"}
    attributes = {key: value if isinstance(value, dict) else {names[type(value)]: value} for key, value in devices.attributes.items()}
    capacity = {key: {"value": str(value)} for key, value in devices.capacity.items()}
    listed = [{"name": f"device-{each}", "attributes": attributes, "capacity": capacity} for each in range(devices.count)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return _published("ResourceSlice", f"{name}-{devices.driver}", driver=devices.driver, nodeName=node, devices=listed, pool=pool)


def _node(name: str, pool: NodePool) -> Object:
    resources = {key: str(value) for key, value in {**_DEFAULTS, **pool.allocatable}.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {FAKE_NODE: "fake"}, "labels": {**_LABELS, **pool.labels, HOSTNAME_LABEL: name}},
        "spec": pool.model_dump(mode="json", include={"taints", "unschedulable"}, exclude_defaults=True),
        "status": {"capacity": resources, "allocatable": resources},
    }


def load_objects(fleet: Fleet) -> list[Object]:
    """The pods of others, on the nodes of their pools, after the namespace and the account that they need."""
    inside = {"namespace": LOAD_NAMESPACE}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LOAD_NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", **inside}},
    ]
    counts = {pool.name: pool.count for pool in fleet.pools}
    for group, load in enumerate(fleet.load):
        for index in range(load.pods):
            node, requests = f"{load.pool}-{index % max(counts[load.pool], 1)}", {key: str(value) for key, value in load.requests.items()}
            container = {"name": "load", "image": "load", "resources": {"requests": requests, "limits": requests}}
            spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
            objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"load-{group}-{index}", **inside}, "spec": spec})
    return objects
