"""Notes on the network: the pods whose egress Kubernetes cannot limit to the servers they call. They stop nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.workspace import Workspace
    from components.egress import RemoteStore
    from stackfile.stack import StackSettings

_OPEN = "can reach every IPv4 address on port"


def note_egress(workspace: Workspace, *, stack: str = "") -> None:
    """Prints the notes of a stack on standard error, each with `stack` before it if that is given."""
    from cli.screen import progress

    for note in egress_notes(workspace.settings):
        progress().print(f"note: {f'{stack}: ' if stack else ''}{note}", highlight=False, markup=False, soft_wrap=True)


def egress_notes(settings: StackSettings) -> Iterator[str]:
    """One line for each store whose readers a NetworkPolicy cannot limit."""
    read = {weights.store for model in settings.models.values() for weights in (model.weights, *model.artifacts.values()) if weights}
    for name in settings.storage:
        if name in read:
            yield from _store_notes(name, settings)


def _store_notes(name: str, settings: StackSettings) -> Iterator[str]:
    from components.egress import limited, needs_sts, ports_of, url_of
    from components.handles import ObjectStore
    from components.storage.model_store import S3Store, WebSource
    from components.storage.spec import HttpStoreSpec, HubStoreSpec, S3StoreSpec

    key, spec = f"storage.{name}", settings.storage[name]
    if not isinstance(spec, S3StoreSpec | HttpStoreSpec | HubStoreSpec):
        return
    store: RemoteStore = S3Store(spec).objects if isinstance(spec, S3StoreSpec) else WebSource(spec).files
    if limited(store):
        if needs_sts(store) and not _has_pod_identity(store, settings):
            yield f"{key}: its readers {_OPEN} 443, where AWS STS gives them credentials. To limit them, name a Secret in {key}.credentials."
    elif isinstance(store, ObjectStore) and store.endpoint is None:
        yield (
            f"{key}: its readers {_OPEN} 443, because a NetworkPolicy cannot match host names and Amazon S3 has no fixed addresses. "
            f"To limit them, filter host names outside Kubernetes, or set {key}.networks to the networks of an S3 interface endpoint."
        )
    else:
        url = url_of(store)
        host = url.hostname or ""
        ports = " and ".join(map(str, ports_of(store)))
        service = f" If it is a Service, write {host}.svc." if url.port and host.count(".") == 1 else ""
        yield (
            f"{key}: its readers {_OPEN} {ports}, because a NetworkPolicy cannot match the host name {host}. "
            f"To limit them, set {key}.networks to the networks of its servers.{service}"
        )


def _has_pod_identity(store: RemoteStore, settings: StackSettings) -> bool:
    """True if this stack gives the readers of `store` a role by EKS Pod Identity, which needs no call of AWS STS."""
    from components.handles import ObjectStore
    from components.platforms.aws.cluster_spec import EksCluster

    cluster = settings.cluster
    amazon = isinstance(store, ObjectStore) and store.endpoint is None
    return amazon and isinstance(cluster, EksCluster) and cluster.identity == "podIdentity"
