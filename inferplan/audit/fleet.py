"""The nodes of an audit: a file that states pools of nodes becomes fake nodes, and recorded nodes become such a file."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferplan.audit.documents import values_in
from inferplan.audit.manifest import InputError, Object
from inferplan.kube.names import FAKE_NODE, HOSTNAME_LABEL
from inferplan.kube.quantity import amount

KIND = "Fleet"
MAX_NODES = 1000
_DRA = "resource.k8s.io/v1"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LABELS = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
_DEFAULTS = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "100Gi", "pods": "110"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Taint(_Strict):
    """A taint of every node of a pool."""

    key: str
    value: str = ""
    effect: str = Field(pattern="^(?:" + "|".join(_EFFECTS) + ")$")


class Devices(_Strict):
    """Devices of every node of a pool that a driver offers to claims (DRA)."""

    driver: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")
    count: int = Field(ge=1, le=128)
    attributes: dict[str, str | bool | int | dict[Literal["version"], str]] = Field(default_factory=dict)
    capacity: dict[str, str | int] = Field(default_factory=dict)


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
    allocatable: dict[str, str | int] = Field(default_factory=dict)
    unschedulable: bool = False
    devices: tuple[Devices, ...] = ()


class Load(_Strict):
    """Pods of others on nodes of `pool`, each with `requests`."""

    pool: str
    pods: int = Field(ge=1, le=MAX_NODES * 100)
    requests: dict[str, str | int]


class Fleet(_Strict):
    """The content of a nodes file."""

    kind: str = Field(default=KIND, pattern=f"^{KIND}$")
    pools: tuple[NodePool, ...] = Field(min_length=1)
    load: tuple[Load, ...] = ()
    device_classes: tuple[DeviceClass, ...] = Field(default=(), alias="deviceClasses")


def read_fleet(content: bytes, name: str) -> Fleet:
    """The pools in the file `name`. Raises InputError with every error."""
    try:
        fleet = Fleet.model_validate(values_in(content, name))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        texts = (f"{name}: {'.'.join(map(str, each['loc']))}: {each['msg']}. See docs/audit.md for the fields." for each in errors)
        raise InputError(texts) from error
    groups = [(f"pools.{index}.allocatable", pool.allocatable) for index, pool in enumerate(fleet.pools)]
    groups += [(f"pools.{index}.devices.capacity", each.capacity) for index, pool in enumerate(fleet.pools) for each in pool.devices]
    errors_ = [
        f"{name}: {path}.{resource}: {value!r} is not a Kubernetes quantity. Write for example 8 or 64Gi."
        for path, quantities in groups
        for resource, value in quantities.items()
        if amount(str(value)) is None
    ]
    if sum(each.count for each in fleet.pools) > MAX_NODES:
        errors_.append(f"{name}: The pools have more than {MAX_NODES:,} nodes together. Record fewer.")
    if missing := {each.pool for each in fleet.load} - {each.name for each in fleet.pools}:
        errors_.append(f"{name}: load names the unknown pool {sorted(missing)[0]!r}. Name one of pools.")
    if errors_:
        raise InputError(errors_)
    return fleet


def node_objects(fleet: Fleet) -> list[Object]:
    """The fake nodes of `fleet`, and what drivers publish about their devices: a DeviceClass, and a ResourceSlice for each node."""
    nodes = [_node(pool, index) for pool in fleet.pools for index in range(pool.count)]
    drivers = {each.driver: (f"device.driver == '{each.driver}'",) for pool in fleet.pools for each in pool.devices}
    classes = drivers | {each.name: each.expressions for each in fleet.device_classes}
    slices = [
        _slice(pool, index, number, each) for pool in fleet.pools for number, each in enumerate(pool.devices) for index in range(pool.count)
    ]
    selectors = {name: [{"cel": {"expression": each}} for each in several] for name, several in classes.items()}
    kind = {"apiVersion": _DRA, "kind": "DeviceClass"}
    return [*nodes, *({**kind, "metadata": {"name": name}, "spec": {"selectors": each}} for name, each in selectors.items()), *slices]


def _slice(pool: NodePool, index: int, number: int, devices: Devices) -> Object:
    node = f"{pool.name}-{index}"
    names = {bool: "bool", int: "int", str: "string"}
    attributes = {key: value if isinstance(value, dict) else {names[type(value)]: value} for key, value in devices.attributes.items()}
    capacity = {key: {"value": str(value)} for key, value in devices.capacity.items()}
    listed = [{"name": f"device-{each}", "attributes": attributes, "capacity": capacity} for each in range(devices.count)]
    spec: Object = {"driver": devices.driver, "nodeName": node, "devices": listed}
    spec["pool"] = {"name": f"{node}-{number}", "generation": 1, "resourceSliceCount": 1}
    return {"apiVersion": _DRA, "kind": "ResourceSlice", "metadata": {"name": f"{node}-{number}-{devices.driver}"}, "spec": spec}


def _node(pool: NodePool, index: int) -> Object:
    name = f"{pool.name}-{index}"
    resources = {key: str(value) for key, value in {**_DEFAULTS, **pool.allocatable}.items()}
    spec: Object = {"taints": [each.model_dump(exclude_defaults=True) for each in pool.taints]} if pool.taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {FAKE_NODE: "fake"}, "labels": {**_LABELS, **pool.labels, HOSTNAME_LABEL: name}},
        "spec": {**spec, "unschedulable": True} if pool.unschedulable else spec,
        "status": {"capacity": resources, "allocatable": resources},
    }


def load_objects(fleet: Fleet) -> list[Object]:
    """The pods of others, on the nodes of their pools."""
    pods: list[Object] = []
    counts = {pool.name: pool.count for pool in fleet.pools}
    for group, load in enumerate(fleet.load):
        for index in range(load.pods):
            node, requests = f"{load.pool}-{index % max(counts[load.pool], 1)}", {key: str(value) for key, value in load.requests.items()}
            container = {"name": "load", "image": "load", "resources": {"requests": requests, "limits": requests}}
            spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
            metadata = {"name": f"load-{group}-{index}", "namespace": "inferplan-load"}
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return pods
