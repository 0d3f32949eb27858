"""The settings of a model's router, with the words of its program, smg."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from inferplan.components.handles import RouterAddress
from inferplan.components.naming import selector
from inferplan.components.spec import Network, PinnedImage, Spec
from inferplan.images.catalogue import default_image
from inferplan.kube.names import EPHEMERAL_STORAGE

COMPONENT = "router"
PORT = 30000
DEFAULT_IMAGE = default_image("router")
PREFIX_TOKENS = 256
"""Tokens that `prefix_hash` reads by smg's default."""
_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
# An idle router takes 55 MB. Its index of prefixes grows to 64 MB of text (docs/decisions/router.md).
ROUTER_REQUESTS = {"cpu": "250m", "memory": "256Mi", EPHEMERAL_STORAGE: "64Mi"}


def router_address(model: str) -> RouterAddress:
    """Return where the gateway finds the router of `model`."""
    return RouterAddress(host=f"{model}-router", port=PORT)


def router_labels(model: str) -> dict[str, str]:
    """Return the labels of the pods of the router of `model`."""
    return selector(COMPONENT, router_address(model).host)


class RouterSpec(Spec):
    """A router between the gateway and a model: prompts with the same beginning go to the same
    replica, which has it in its cache, unless that replica is much busier than the others.
    """

    policy: Literal["prefix_hash", "cache_aware", "power_of_two", "round_robin", "random"] = (
        "prefix_hash"
    )
    """The choice of a replica, in the words of smg. `prefix_hash` chooses by the beginning
    of the prompt, alike in all router pods; `cache_aware` remembers the prompts of each replica, for
    itself in each router pod.
    """
    prefix_token_count: Annotated[int, Field(ge=16, le=1_000_000)] | None = None
    """Tokens of the beginning that `prefix_hash` reads, four characters each. Default: smg's, 256.
    Raise it where all prompts have a longer beginning in common.
    """
    replicas: Annotated[int, Field(ge=1, le=20)] = 2
    """Number of router pods. While none is ready, the gateway calls the model's Service instead."""
    api_networks: Annotated[list[Network], Field(min_length=1, max_length=20)] = [*_PRIVATE]
    """Networks with the cluster's Kubernetes API, which the router asks for pods. Default: the
    private networks and 100.64.0.0/10.
    """
    image: PinnedImage = DEFAULT_IMAGE
    """An image of smg (Shepherd Model Gateway)."""

    @property
    def beginning(self) -> int:
        """The tokens of a prompt by which replicas are chosen; 0 for a policy that reads others."""
        return (self.prefix_token_count or PREFIX_TOKENS) if self.policy == "prefix_hash" else 0

    @property
    def pod_requests(self) -> list[Mapping[str, str]]:
        """The requests of each pod of the router."""
        return [ROUTER_REQUESTS] * self.replicas
