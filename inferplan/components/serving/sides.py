"""The part of a model's router, and of its sides where prefill and decode are split."""

from collections.abc import Mapping
from typing import ClassVar, Self

from inferplan.components.router.spec import RouterSpec, router_labels
from inferplan.components.spec import Spec
from inferplan.documents.errors import KeyPath


class SidedModel(Spec):
    """A model whose servers are one group, or two sides that exchange KV caches."""

    sides_answer_alone: ClassVar[bool] = False
    """True if each side answers whole calls while the other has no server."""
    bootstrap_port: ClassVar[int | None] = None
    """The port of prefill servers at which transfers are announced."""

    @property
    def routed_by(self) -> RouterSpec | None:
        """The router in front of the replicas; None if their Service chooses one."""
        return None

    def router_pods(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of the router's pods that call the servers of model `name`."""
        return None if self.routed_by is None else router_labels(name)

    def whole(self, name: str) -> str:
        """Return the name of the model that the servers called `name` are a part of."""
        return name

    def sides(self, name: str) -> Mapping[str, str]:  # noqa: ARG002 - split models read it
        """Return the labels of the servers of both sides; empty if the model is not split."""
        return {}

    def peer(self, name: str) -> str | None:  # noqa: ARG002 - split models read it
        """Return the name of the servers that exchange KV caches with those called `name`."""
        return None

    def written_at(self, name: str, path: KeyPath) -> KeyPath:
        """Return where the stack has the field at `path` of the servers `name`, below `models`."""
        return (name, *path)

    def parts(self, name: str) -> Mapping[str, Self]:
        """Return the servers of model `name` by name, in the order of a rollout."""
        return {name: self}
