"""The devices that DRA drivers publish in ResourceSlices and that the scheduler allocates to claims."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from inferplan.kube.paths import mapping

API: str = "resource.k8s.io/v1"


class Offer(NamedTuple):
    """The devices of a DeviceClass: those of `driver` whose attribute `type` is `kind`. Without
    `selects_kind`, the class has other devices of the driver too.
    """

    driver: str
    kind: str
    selects_kind: bool = True

    @property
    def of_kind(self) -> str:
        return f"{self.attribute('type')} == '{self.kind}'"

    @property
    def expression(self) -> str:
        own = f"device.driver == '{self.driver}'"
        return f"{own} && {self.of_kind}" if self.selects_kind else own

    def attribute(self, name: str) -> str:
        """Return the CEL expression of an attribute of a device."""
        return f"device.attributes['{self.driver}'].{name}"


# kubernetes-sigs/dra-driver-nvidia-gpu, deployments/helm, templates/deviceclass-*.yaml (read 2026-11).
OFFERS: Mapping[str, Offer] = {
    "gpu.nvidia.com": Offer("gpu.nvidia.com", "gpu"),
    "mig.nvidia.com": Offer("gpu.nvidia.com", "mig"),
    # ROCm/k8s-gpu-dra-driver, docs/driver-attributes.md and its chart (read 2026-11).
    "gpu.amd.com": Offer("gpu.amd.com", "amdgpu", selects_kind=False),
}


def published(slices: Iterable[Any], device_class: str) -> Counter[str]:
    """Return the devices of `device_class` by node."""
    counts: Counter[str] = Counter()
    driver, kind, _ = OFFERS[device_class]
    for spec in (each["spec"] for each in slices if each["spec"]["driver"] == driver):
        # A slice with only partition counters lists no devices.
        listed = spec.get("devices") or ()
        kinds = [mapping(each, "attributes", "type").get("string") for each in listed]
        counts[spec.get("nodeName", "")] += kinds.count(kind)
    return counts


def allocated(claims: Iterable[Any], device_class: str) -> Counter[str]:
    """Return the devices of the driver of `device_class` that claims have, by node, whose name is
    that of the driver's pool (kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/driver.go,
    read 2026-11).
    """
    devices = (mapping(each, "status", "allocation", "devices") for each in claims)
    return Counter(
        result["pool"]
        for each in devices
        for result in each.get("results") or ()
        if result["driver"] == OFFERS[device_class].driver
    )
