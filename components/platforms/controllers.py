"""The controllers of an existing cluster that add nodes and serve the gateway's Ingress or load balancer."""

from __future__ import annotations

from typing import Literal

from components.spec import Spec

Existing = Literal["existing", "none"]


class ExistingControllers(Spec):
    """The controllers of a cluster that this stack cannot give a cloud role."""

    autoscaler: Existing = "none"
    """The autoscaler that adds nodes when pods wait: `existing` (it runs in the cluster) or `none`."""
    load_balancer_controller: Existing = "existing"
    """The controller of the gateway's Ingress or load balancer: `existing` (it runs in the cluster) or `none`."""


def no_controller(controller: str, remedy: str = "you install it") -> str:
    """Return the sentence about a gateway that waits for `controller`."""
    return f"the cluster has no {controller}, so the gateway gets no address until {remedy}"
