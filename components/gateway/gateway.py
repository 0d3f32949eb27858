"""The entrance: an nginx that checks keys and forwards inference calls, and nothing else, to the models' servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from components.gateway.api_keys import KeyRing
from components.gateway.spec import GatewaySpec
from components.handles import Endpoint
from components.naming import selector

COMPONENT = "gateway"
GATEWAY_PODS: Mapping[str, str] = selector(COMPONENT, "gateway")
"""The labels of the gateway's pods, for the policies that let them in."""


class Gateway(pulumi.ComponentResource):
    """The key-checking proxy in front of `endpoints`."""

    url: str | None

    def __init__(
        self,
        name: str,
        spec: GatewaySpec,
        *,
        namespace: pulumi.Input[str],
        endpoints: Sequence[Endpoint],
        keys: KeyRing,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        raise NotImplementedError
