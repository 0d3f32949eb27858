"""The model stores that need no cloud: each gives its readers a handle; an NFS export or an
existing file system becomes a static volume and its claim.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pulumi

from inferplan.components.handles import NodeTarget
from inferplan.components.sources import ModelSource
from inferplan.components.storage.fields import Store
from inferplan.components.storage.static_volume import NodeDisks, StaticStore
from inferplan.components.storage.volume_spec import NodeDiskStoreSpec


class ModelStore(Protocol):
    """A store of a stack, whatever its kind."""

    def source(self, account: str, path: str) -> ModelSource:
        """Return the handle for the service account `account` that reads the directory `path`."""
        ...


@dataclass(frozen=True)
class SharedStore:
    """A store with the same handle for all readers."""

    handle: ModelSource

    def source(self, account: str, path: str) -> ModelSource:
        del account, path
        return self.handle


def model_store(
    name: str,
    spec: Store,
    *,
    namespace: pulumi.Input[str],
    scope: str,
    targets: Mapping[str, NodeTarget],
    opts: pulumi.ResourceOptions | None = None,
) -> ModelStore:
    """Create the store of `spec` by its kind. `namespace` and `scope` are those of `static_claim`,
    `targets` the pools by name.
    """
    if (volume := spec.volume()) is not None:
        return SharedStore(
            StaticStore(name, spec, volume, namespace=namespace, scope=scope, opts=opts).claim
        )
    match spec:
        case NodeDiskStoreSpec():
            return SharedStore(
                NodeDisks(
                    name,
                    spec,
                    target=targets[spec.pool],
                    namespace=namespace,
                    scope=scope,
                    opts=opts,
                ).claim
            )
        case _:
            return SharedStore(spec.source())
