"""The controllers of an EKS cluster that add nodes to node groups and create load balancers."""

from __future__ import annotations

from typing import Literal

from components.spec import Spec

Controller = Literal["install", "existing", "none"]


class EksControllers(Spec):
    """The controllers of an EKS cluster. Without a value, a created cluster gets what it needs, and an existing one is not changed."""

    auto_mode: bool | None = None
    """True if EKS Auto Mode runs nodes, load balancers and block storage. Default: true for a created cluster. On an existing cluster,
    true means that it has Auto Mode already; false is the default."""
    autoscaler: Controller | None = None
    """The autoscaler that adds nodes to node groups: `install` (the Cluster Autoscaler, by this stack), `existing` (it runs in the
    cluster) or `none`. Default: install for a created cluster, none for an existing one."""
    load_balancer_controller: Controller | None = None
    """The AWS Load Balancer Controller: `install` (by this stack), `existing` (it runs in the cluster) or `none`. Default: install for a
    created cluster whose gateway needs it, existing for an existing cluster."""
