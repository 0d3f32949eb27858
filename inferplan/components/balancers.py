"""The load balancers that clouds put in front of a gateway, by the folders of the clouds; the
gateway knows no cloud.
"""

from typing import TypeAlias

from inferplan.components.platforms.aws.load_balancers import (
    CONTROLLER,
    LONGEST_IDLE_SECONDS,
    AlbSpec,
    BalancerSpec,
    LoadBalancing,
    NlbSpec,
)

__all__ = [
    "CONTROLLER",
    "LONGEST_IDLE_SECONDS",
    "BalancerSpec",
    "IngressBalancer",
    "LoadBalancing",
    "ServiceBalancer",
]

IngressBalancer: TypeAlias = AlbSpec
"""Load balancers that a controller makes of an Ingress."""
ServiceBalancer: TypeAlias = NlbSpec
"""Load balancers that a controller makes of a Service of type LoadBalancer."""
