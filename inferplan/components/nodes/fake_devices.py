"""The devices of fake nodes as a DRA driver publishes them: a ResourceSlice for each node, and the
DeviceClass of the driver. It only builds manifests.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from inferplan.components.nodes.pool import Pool
from inferplan.hardware.accelerators import lookup

_VERSION = "resource.k8s.io/v1"


def device_classes_of(pools: Iterable[Pool]) -> tuple[str, ...]:
    """Return the DeviceClasses that pods of `pools` claim devices of, each once, sorted."""
    names = {each.hardware.device_class for each in pools if each.hardware is not None}
    return tuple(sorted(each for each in names if each is not None))


def fake_device_classes(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the DeviceClass objects called `names`, as their drivers' charts declare them."""
    return [_published("DeviceClass", name, _class(name)) for name in names]


def fake_slices(pool: Pool, nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the ResourceSlice of each of the `nodes` of `pool`, as manifests; none if a device
    plugin offers their accelerators.
    """
    hardware = pool.hardware
    if hardware is None or hardware.device_class is None:
        return []
    whole = lookup(hardware.name)
    # kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/deviceinfo.go (read 2026-11).
    attributes: dict[str, dict[str, str]] = {"type": {"string": "gpu"}}
    if whole.product is not None:
        attributes["productName"] = {"string": whole.product.replace("-", " ")}
    if whole.compute is not None:
        attributes["cudaComputeCapability"] = {"version": f"{whole.compute}.0"}
    capacity = {"memory": {"value": f"{whole.memory_bytes // 2**20}Mi"}}
    devices = [
        {"name": f"gpu-{index}", "attributes": attributes, "capacity": capacity}
        for index in range(pool.capacity.accelerators)
    ]
    driver = hardware.device_class
    return [
        _published(
            "ResourceSlice",
            f"{name}-{driver}",
            {
                "driver": driver,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        )
        for name in (str(each["metadata"]["name"]) for each in nodes)
    ]


def _class(name: str) -> dict[str, Any]:
    own = f"device.driver == '{name}' && device.attributes['{name}'].type == 'gpu'"
    return {"selectors": [{"cel": {"expression": own}}]}


def _published(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
