"""The devices that DRA drivers publish in ResourceSlices and that the scheduler allocates to claims."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from inferplan.kube.paths import mapping

API: str = "resource.k8s.io/v1"


def published(slices: Iterable[Any], driver: str) -> Counter[str]:
    """Return the whole devices of `driver` by node. A driver publishes its partitions with another
    `type`.
    """
    counts: Counter[str] = Counter()
    for spec in (each["spec"] for each in slices if each["spec"]["driver"] == driver):
        # A slice with only partition counters lists no devices.
        listed = spec.get("devices") or ()
        kinds = [mapping(each, "attributes", "type").get("string") for each in listed]
        counts[spec.get("nodeName", "")] += kinds.count("gpu")
    return counts


def allocated(claims: Iterable[Any], driver: str) -> Counter[str]:
    """Return the devices of `driver` that claims have, by node, whose name is that of the driver's
    pool (kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/driver.go, read 2026-11).
    """
    devices = (mapping(each, "status", "allocation", "devices") for each in claims)
    return Counter(
        result["pool"]
        for each in devices
        for result in each.get("results") or ()
        if result["driver"] == driver
    )
