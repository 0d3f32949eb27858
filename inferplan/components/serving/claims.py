"""Claims for the accelerators of a pod, which a DRA driver offers instead of a device plugin."""

from typing import cast

import pulumi

from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import core, resource
from inferplan.components.naming import bounded, content_key

CLAIM = "accelerators"
"""The name of the claim in a pod, and of the request in the claim."""


def claimed_class(target: NodeTarget) -> str | None:
    """Return the DeviceClass of the accelerators of `target`; None if a device plugin offers them."""
    return None if target.accelerator is None else target.accelerator.device_class


def template_name(name: str, device_class: str, count: int) -> str:
    """Return the name of the ResourceClaimTemplate of model `name`. A template cannot be
    changed, so its name depends on its content, and old pods keep their template.
    """
    return bounded(f"{name}-devices", content_key(device_class, str(count)))


def template_spec(device_class: str, count: int) -> "resource.ResourceClaimTemplateSpecArgsDict":
    """Return the spec of a ResourceClaimTemplate for `count` devices, all on one node."""
    request = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    devices = {"requests": [{"name": CLAIM, "exactly": request}]}
    return cast("resource.ResourceClaimTemplateSpecArgsDict", {"spec": {"devices": devices}})


def pod_claims(
    template: pulumi.Input[str] | None,
) -> list[core.PodResourceClaimArgsDict] | None:
    """Return the claims of a pod by `template`, whose claims live as long as their pods."""
    if template is None:
        return None
    return [core.PodResourceClaimArgsDict(name=CLAIM, resource_claim_template_name=template)]
