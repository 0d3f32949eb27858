"""Claims for the accelerators of a pod, which a DRA driver offers instead of a device plugin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from inferplan.components.handles import NodeTarget
from inferplan.components.naming import bounded, content_key
from inferplan.components.serving.model_parts import PlacedModel
from inferplan.hardware.accelerators import Accelerator, lookup
from inferplan.kube.devices import OFFERS

if TYPE_CHECKING:
    import pulumi

    from inferplan.components.kubernetes import core

CLAIM = "accelerators"
"""The name of the claim in a pod, and of the request in the claim."""
# A driver reports less memory than the data sheet says, 81,559 of 81,920 MiB on an H100.
_REPORTED = 0.9


def claimed(target: NodeTarget, count: int) -> dict[str, Any] | None:
    """Return the spec of a claim for `count` accelerators of `target`, all on one node; None if a
    device plugin offers them.
    """
    accelerator = target.accelerator
    if accelerator is None or accelerator.device_class is None:
        return None
    selectors = [{"cel": {"expression": each}} for each in _expressions(accelerator)]
    request = {
        "deviceClassName": accelerator.device_class,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": selectors,
    }
    devices: dict[str, Any] = {"requests": [{"name": CLAIM, "exactly": request}]}
    if accelerator.sharers > 1:
        driver = OFFERS[accelerator.device_class].driver
        opaque = {"driver": driver, "parameters": _sharing(accelerator)}
        devices["config"] = [{"requests": [CLAIM], "opaque": opaque}]
    return {"devices": devices}


def _sharing(accelerator: Accelerator) -> dict[str, Any]:
    """The driver's parameters for a shared device (api/nvidia.com/resource/v1beta1, read 2026-11)."""
    sharing: dict[str, Any] = {"strategy": "TimeSlicing"}
    # Only MPS divides the memory.
    if accelerator.memory_bytes < lookup(accelerator.name).memory_bytes:
        part = {
            "defaultActiveThreadPercentage": 100 // accelerator.sharers,
            "defaultPinnedDeviceMemoryLimit": f"{accelerator.memory_bytes // 2**20}Mi",
        }
        sharing = {"strategy": "MPS", "mpsConfig": part}
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}


def shared_devices(
    models: Mapping[str, PlacedModel], targets: Mapping[str, NodeTarget]
) -> dict[str, tuple[str, int]]:
    """Return the pool and the number of the device of each model that shares one by a claim. All
    replicas of a model are on one device, the first of its pool with room for them, in the order of
    `models`.
    """
    used: dict[str, list[int]] = {}
    places = {}
    for name, model in models.items():
        accelerator = targets[model.pool].accelerator if model.pool in targets else None
        if accelerator is None or accelerator.device_class is None or accelerator.sharers == 1:
            continue
        devices = used.setdefault(model.pool, [])
        room = accelerator.sharers - most_sharers(model)
        index = next((each for each, taken in enumerate(devices) if taken <= room), len(devices))
        if index == len(devices):
            devices.append(0)
        devices[index] += most_sharers(model)
        places[name] = model.pool, index
    return places


def most_sharers(model: PlacedModel) -> int:
    """Return how many pods of `model` may be on a device at once, including a surge pod."""
    return model.most_accelerators + (model.rollout == "surge")


def claim_name(owner: str, claim: Mapping[str, Any]) -> str:
    """Return the name of a claim or a template of claims. Neither can be changed, so the name
    depends on the content, and old pods keep theirs.
    """
    return bounded(owner, content_key(json.dumps(claim, sort_keys=True)))


def _expressions(accelerator: Accelerator) -> Iterator[str]:
    """The CEL expressions that a device has to meet, so that a node with several kinds of
    accelerators gives the kind of the pool.
    """
    offer = OFFERS[accelerator.device_class or ""]
    if not offer.selects_kind:
        yield offer.of_kind
    if accelerator.compute is not None:
        wanted = f"semver('{accelerator.compute}.0')"
        yield f"{offer.attribute('cudaComputeCapability')}.compareTo({wanted}) == 0"
    if accelerator.profile is not None:
        yield f"{offer.attribute('profile')} == '{accelerator.profile}'"
    else:
        reported = int(lookup(accelerator.name).memory_bytes * _REPORTED)
        least = f"quantity('{reported // 2**20}Mi')"
        memory = f"device.capacity['{offer.driver}'].memory"
        yield f"{memory}.compareTo({least}) >= 0"


def pod_claims(
    template: pulumi.Input[str] | None, shared: pulumi.Input[str] | None
) -> list[core.PodResourceClaimArgsDict] | None:
    """Return the claims of a pod: the claim that it shares, or its own by `template`, which lives as
    long as the pod.
    """
    if shared is not None:
        return [{"name": CLAIM, "resource_claim_name": shared}]
    if template is None:
        return None
    return [{"name": CLAIM, "resource_claim_template_name": template}]
