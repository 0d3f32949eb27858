"""Claims for the accelerators of a pod, which a DRA driver offers instead of a device plugin."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi

from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import core
from inferplan.components.naming import bounded, content_key
from inferplan.hardware.accelerators import Accelerator
from inferplan.kube.devices import OFFERS

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
    return {"devices": {"requests": [{"name": CLAIM, "exactly": request}]}}


def _expressions(accelerator: Accelerator) -> Iterator[str]:
    """The CEL expressions that a device has to meet, so that a node with several kinds of
    accelerators gives the kind of the pool.
    """
    offer = OFFERS[accelerator.device_class or ""]
    if accelerator.compute is not None:
        wanted = f"semver('{accelerator.compute}.0')"
        yield f"{offer.attribute('cudaComputeCapability')}.compareTo({wanted}) == 0"
    if accelerator.profile is not None:
        yield f"{offer.attribute('profile')} == '{accelerator.profile}'"
    else:
        least = f"quantity('{int(accelerator.memory_bytes * _REPORTED) // 2**20}Mi')"
        memory = f"device.capacity['{offer.driver}'].memory"
        yield f"{memory}.compareTo({least}) >= 0"


def template_name(name: str, claim: Mapping[str, Any]) -> str:
    """Return the name of the ResourceClaimTemplate of model `name`. A template cannot be
    changed, so its name depends on its content, and old pods keep their template.
    """
    return bounded(f"{name}-devices", content_key(json.dumps(claim, sort_keys=True)))


def pod_claims(
    template: pulumi.Input[str] | None,
) -> list[core.PodResourceClaimArgsDict] | None:
    """Return the claims of a pod by `template`, whose claims live as long as their pods."""
    if template is None:
        return None
    return [core.PodResourceClaimArgsDict(name=CLAIM, resource_claim_template_name=template)]
