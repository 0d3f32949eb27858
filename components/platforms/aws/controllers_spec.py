"""The controllers of an EKS cluster that add nodes to node groups and create load balancers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from components.platforms.controllers import no_controller
from components.platforms.platform import Cluster

if TYPE_CHECKING:
    from components.gateway.exposure_spec import Access
    from components.nodes.pool import Pool

Controller = Literal["install", "existing", "none"]

CONTROLLERS_NAMESPACE = "cluster-controllers"


class EksControllers(Cluster):
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

    @property
    def has_auto_mode(self) -> bool:
        """True if EKS Auto Mode is enabled, defaults applied."""
        return self.is_created if self.auto_mode is None else self.auto_mode

    @property
    def balances_in_auto_mode(self) -> bool:
        """True if EKS Auto Mode creates the load balancers, not the AWS Load Balancer Controller."""
        return self.has_auto_mode and self.load_balancer_controller in (None, "none")

    @property
    def autoscaler_choice(self) -> Controller:
        """The autoscaler of node groups, defaults applied."""
        return self.autoscaler or ("install" if self.is_created else "none")

    def adds_nodes(self, pool: Pool) -> bool:
        """True for node groups with an autoscaler."""
        return pool.creates_nodes and self.autoscaler_choice != "none"

    @property
    def autoscaler_remedies(self) -> tuple[str, ...]:
        """`install`, and for an existing cluster first the autoscaler that it may have."""
        existing = () if self.is_created else ("autoscaler: existing (if one runs in the cluster)",)
        return (*existing, "autoscaler: install")

    def load_balancer_choice(self, access: Access) -> Controller:
        """Return the AWS Load Balancer Controller for the gateway's `access`, defaults applied. EKS Auto Mode needs none."""
        default = "existing" if not self.is_created else "none" if access.balancer is None or self.has_auto_mode else "install"
        return self.load_balancer_controller or default

    def installs_load_balancers(self, access: Access | None) -> bool:
        """True if this stack installs the AWS Load Balancer Controller: as the user wrote, else for the gateway's load balancer."""
        return access is not None and access.balancer is not None and self.load_balancer_choice(access) == "install"

    def unserved(self, access: Access) -> str | None:
        """Return the missing controller. EKS Auto Mode and an installed controller serve the load balancers of AWS only."""
        choice = self.load_balancer_choice(access)
        if access.controller is None or choice == "existing":
            return None
        if access.balancer is None:
            return no_controller(access.controller, "you install it (docs/aws.md)")
        if choice == "install" or self.has_auto_mode:
            return None
        return no_controller(access.controller, "cluster has loadBalancerController: install")
