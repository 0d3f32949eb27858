"""The devices of fake nodes as a DRA driver publishes them: a ResourceSlice for each node, and the
DeviceClasses of the driver. It only builds manifests.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inferplan.components.nodes.pool import Pool
from inferplan.hardware.accelerators import Accelerator, lookup
from inferplan.kube.devices import API, OFFERS


def device_classes_of(pools: Iterable[Pool]) -> tuple[str, ...]:
    """Return the DeviceClasses that pods of `pools` claim devices of, each once, sorted."""
    names = {each.hardware.device_class for each in pools if each.hardware is not None}
    return tuple(sorted(each for each in names if each is not None))


def fake_device_classes(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the DeviceClass objects called `names`, as their drivers' charts declare them."""
    return [
        _published(
            "DeviceClass", name, {"selectors": [{"cel": {"expression": OFFERS[name].expression}}]}
        )
        for name in names
    ]


def fake_slices(pool: Pool, nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the ResourceSlice of each of the `nodes` of `pool`, as manifests; none if a device
    plugin offers their accelerators.
    """
    hardware = pool.hardware
    if hardware is None or hardware.device_class is None:
        return []
    whole = lookup(hardware.name)
    driver, kind, _ = OFFERS[hardware.device_class]
    # kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/{deviceinfo,mig}.go (read 2026-11).
    attributes: dict[str, dict[str, str]] = {"type": {"string": kind}}
    if hardware.profile is not None:
        attributes["profile"] = {"string": hardware.profile}
    if whole.product is not None:
        attributes["productName"] = {"string": whole.product.replace("-", " ")}
    if whole.compute is not None:
        attributes["cudaComputeCapability"] = {"version": f"{whole.compute}.0"}
    own = whole if hardware.profile is None else hardware
    capacity = {"memory": {"value": f"{own.memory_bytes // 2**20}Mi"}}
    devices = [
        {"name": name, "attributes": attributes, "capacity": capacity}
        for name in _device_names(hardware, pool.capacity.accelerators // hardware.sharers)
    ]
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


def _device_names(hardware: Accelerator, count: int) -> Iterator[str]:
    """The names of the devices of a node. The driver's name of a slice has the number of its profile
    too, which the accelerator table does not have.
    """
    if hardware.profile is None:
        yield from (f"gpu-{index}" for index in range(count))
        return
    slices = lookup(hardware.name).slices(hardware.profile)
    called = hardware.profile.replace(".", "")
    yield from (f"gpu-{index // slices}-mig-{called}-{index % slices}" for index in range(count))


def _published(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
