"""The nodes of an audit: a file that states pools of nodes becomes fake nodes, and recorded nodes
become such a file.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from inferplan.audit.documents import values_in
from inferplan.audit.manifest import InputError, Object
from inferplan.components.spec import (
    DnsName,
    FieldError,
    LabelKey,
    Labels,
    LabelValue,
    Spec,
    duplicates,
    rule,
)
from inferplan.documents.errors import InvalidStack, LocatedError
from inferplan.documents.yaml_tree import find, read_tree
from inferplan.kube.names import FAKE_NODE, HOSTNAME_LABEL
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import canonical
from inferplan.stackfile.messages import errors_of

KIND: Final = "Fleet"
MAX_NODES = 1000
_LABELS = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
LOAD_NAMESPACE: Final = "inferplan-load"
"""The namespace of the pods of others."""
_DEFAULTS = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def _not_negative(value: str | int) -> str | int:
    if canonical(str(value)).startswith("-"):
        raise ValueError(f"{value!r} is negative. Use 0 or more.")
    return value


Quantity = Annotated[str | int, AfterValidator(_not_negative)]


class Taint(Spec):
    """A taint of every node of a pool."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Devices(Spec):
    """Devices of every node of a pool that a driver offers to claims (DRA)."""

    driver: Annotated[DnsName, Field(max_length=63)]
    count: int = Field(ge=1, le=128)
    attributes: dict[str, str | bool | int | dict[Literal["version"], str]] = Field(
        default_factory=dict
    )
    capacity: dict[str, Quantity] = Field(default_factory=dict)


class DeviceClass(Spec):
    """A class of devices by a CEL expression; each driver has one of its own name without being
    listed.
    """

    name: Annotated[DnsName, Field(max_length=63)]
    expressions: tuple[str, ...] = ()


class NodePool(Spec):
    """Nodes of one shape; quantities that are not stated are those of a node with 32 CPUs."""

    name: Annotated[DnsName, Field(max_length=52)]
    count: int = Field(ge=0, le=MAX_NODES)
    labels: Labels = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, Quantity] = Field(default_factory=dict)
    unschedulable: bool = False
    devices: tuple[Devices, ...] = ()


class Load(Spec):
    """Pods of others on nodes of `pool`, each with `requests`."""

    pool: str
    pods: int = Field(ge=1, le=MAX_NODES * 100)
    requests: dict[str, Quantity]


class Fleet(Spec):
    """The content of a nodes file."""

    kind: Literal["Fleet"] = KIND
    pools: list[NodePool] = Field(min_length=1)
    load: tuple[Load, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()

    @rule
    def _check(self) -> Iterator[FieldError]:
        names = [each.name for each in self.pools]
        for each in duplicates(names):
            last = len(names) - 1 - names[::-1].index(each)
            yield FieldError(
                f"Two pools have the name {each!r}. Rename one.", "pools", last, "name"
            )
        if sum(each.count for each in self.pools) > MAX_NODES:
            yield FieldError(
                f"The pools have more than {MAX_NODES:,} nodes together. Lower a count.", "pools"
            )
        for index, each in enumerate(self.load):
            if each.pool not in names:
                yield FieldError(
                    f"load names the unknown pool {each.pool!r}. Correct the name.",
                    "load",
                    index,
                    "pool",
                )


class RejectedNodeError(InputError):
    """The API server rejects `body`, an object of a nodes file."""

    def __init__(self, body: Object, reason: str) -> None:
        super().__init__(
            [
                f"{body['kind']} {body['metadata']['name']}: {reason.rstrip('.')}. Correct the pool or class."
            ]
        )
        self.body = body


def read_fleet(content: bytes, name: str) -> Fleet:
    """The pools in the file `name`. Raises InputError with every error."""
    values = values_in(content, name)
    try:
        return Fleet.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        root = read_tree(content.decode("utf-8-sig")).root
        errors = errors_of(
            error,
            values,
            Fleet,
            lambda path: getattr(find(root, path)[0], "text", None) if root else None,
        )
        located = (
            LocatedError(each.path, each.message, find(root, each.path)[1] if root else None)
            for each in errors
        )
        raise InputError(
            f"{line} See inferplan docs audit for the fields."
            for line in InvalidStack(name, located).lines
        ) from error


def place_of(body: Object, content: bytes, name: str) -> str:
    """The place in the nodes file `name` of the pool or device class that became `body`; the first
    line if it is a stack file.
    """
    root, wanted = (
        read_tree(content.decode("utf-8-sig")).root,
        mapping(body, "spec").get("nodeName", body["metadata"]["name"]),
    )
    section, wanted = (
        ("deviceClasses", wanted)
        if body["kind"] == "DeviceClass"
        else ("pools", wanted.rpartition("-")[0])
    )
    names = [each["name"] for each in values_in(content, name).get(section) or ()]
    return f"{name}:{find(root, (section, names.index(wanted)))[1].line if root and wanted in names else 1}"


def node_objects(fleet: Fleet) -> list[Object]:
    """The fake nodes of `fleet`, and what drivers publish about their devices: a DeviceClass, and a
    ResourceSlice for each node.
    """
    nodes = [(pool, f"{pool.name}-{index}") for pool in fleet.pools for index in range(pool.count)]
    drivers = {
        each.driver: (f"device.driver == '{each.driver}'",)
        for pool in fleet.pools
        for each in pool.devices
    }
    classes = drivers | {each.name: each.expressions for each in fleet.device_classes}
    selectors = {
        name: [{"cel": {"expression": each}} for each in several]
        for name, several in classes.items()
    }
    return [
        *(_node(node, pool) for pool, node in nodes),
        *(_published("DeviceClass", name, selectors=each) for name, each in selectors.items()),
        *(
            _slice(f"{node}-{number}", node, each)
            for pool, node in nodes
            for number, each in enumerate(pool.devices)
        ),
    ]


def _published(kind: str, name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _slice(name: str, node: str, devices: Devices) -> Object:
    names = {bool: "bool", int: "int", str: "string"}
    attributes = {
        key: value if isinstance(value, dict) else {names[type(value)]: value}
        for key, value in devices.attributes.items()
    }
    capacity = {key: {"value": str(value)} for key, value in devices.capacity.items()}
    listed = [
        {"name": f"device-{each}", "attributes": attributes, "capacity": capacity}
        for each in range(devices.count)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return _published(
        "ResourceSlice",
        f"{name}-{devices.driver}",
        driver=devices.driver,
        nodeName=node,
        devices=listed,
        pool=pool,
    )


def _node(name: str, pool: NodePool) -> Object:
    resources = {key: str(value) for key, value in {**_DEFAULTS, **pool.allocatable}.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_NODE: "fake"},
            "labels": {**_LABELS, **pool.labels, HOSTNAME_LABEL: name},
        },
        "spec": pool.model_dump(
            mode="json", include={"taints", "unschedulable"}, exclude_defaults=True
        ),
        "status": {"capacity": resources, "allocatable": resources},
    }


def load_objects(fleet: Fleet) -> list[Object]:
    """The pods of others, on the nodes of their pools, after the namespace and the account that
    they need.
    """
    inside = {"namespace": LOAD_NAMESPACE}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LOAD_NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", **inside}},
    ]
    counts = {pool.name: pool.count for pool in fleet.pools}
    for group, load in enumerate(fleet.load):
        for index in range(load.pods):
            node, requests = (
                f"{load.pool}-{index % max(counts[load.pool], 1)}",
                {key: str(value) for key, value in load.requests.items()},
            )
            container = {
                "name": "load",
                "image": "load",
                "resources": {"requests": requests, "limits": requests},
            }
            spec = {
                "nodeName": node,
                "containers": [container],
                "tolerations": [{"operator": "Exists"}],
            }
            objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"load-{group}-{index}", **inside},
                    "spec": spec,
                }
            )
    return objects
