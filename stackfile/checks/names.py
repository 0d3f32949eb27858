"""Whether two parts of a stack would claim the same Kubernetes object, and whether derived names fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.gateway.names import PROXY_EDGES, consumer_secret, server_key_secret
from components.naming import bounded
from components.spec import KeyPath, SpecError
from components.storage.disk_spec import NodeDiskStoreSpec
from components.storage.spec import NfsStoreSpec, S3StoreSpec
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec

if TYPE_CHECKING:
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings

# Objects that the namespace holds whatever its models are called: the gateway's, the namespace's own, and Kubernetes' service account.
_FIXED = {
    "gateway": "the gateway",
    PROXY_EDGES: "the network policy of the gateway's proxies",
    "default-deny": "the namespace's network policy",
    "allow-dns": "the namespace's network policy",
    "default": "Kubernetes for its own service account",
}
# `<model>-group-<number>` is a StatefulSet; with ten characters of a revision it labels its pods, and a label ends at 63.
_LONGEST_GROUP = 63 - 11 - len("-group-")
_SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of names: reserved, too long, or claimed twice."""
    if settings.namespace in _SYSTEM_NAMESPACES:
        yield SpecError(("namespace",), f"{settings.namespace!r} belongs to Kubernetes; use a namespace of its own, such as inference")
    for name, model in settings.models.items():
        if name in _FIXED:
            yield SpecError(("models", name), f"{name!r} is taken by {_FIXED[name]}; call the model differently")
        if name == "vllm":
            message = (
                "a Service of this name has Kubernetes tell pods VLLM_PORT=tcp://..., which vLLM takes for its own setting and refuses"
            )
            yield SpecError(("models", name), f"{message}; call the model differently")
        if len(name) > model.longest_name:
            room = f"{model.longest_name_of} have room for {model.longest_name}"
            yield SpecError(("models", name), f"{name!r} has {len(name)} characters, and {room}; shorten it")
        yield from _operators_names(name, model, settings)
    yield from _claimed_twice(settings)
    yield from _shared_places(settings)
    yield from _metrics(settings)
    yield from _accounts(settings)


def _operators_names(name: str, model: ModelSpec, settings: StackSettings) -> Iterator[SpecError]:
    """What an operator makes of the model's name: pods that fit their labels, and services that nobody else claims."""
    longest = _LONGEST_GROUP - len(str(max(0, model.replicas - 1)))
    if model.pods > 1 and len(name) > longest:
        yield SpecError(
            ("models", name), f"{name!r} has {len(name)} characters, and the StatefulSets of its pods have room for {longest}; shorten it"
        )
    for ending in model.operator_services:
        taken = f"{name}-{ending}"
        if taken in settings.models:
            yield SpecError(("models", taken), f"{taken!r} is what an operator calls a Service of {name}; call the model differently")


def _claimed_twice(settings: StackSettings) -> Iterator[SpecError]:
    claimed: dict[str, KeyPath] = {}
    for name, path in _secrets(settings):
        if name in claimed:
            other = ".".join(str(part) for part in claimed[name])
            yield SpecError(path, f"its Secret would be called {name!r}, as that of {other} is; call one of them differently")
        else:
            claimed[name] = path


def _secrets(settings: StackSettings) -> Iterator[tuple[str, KeyPath]]:
    yield from ((server_key_secret(name), ("models", name)) for name in settings.models)
    yield from ((consumer_secret(name), ("consumers", name)) for name in settings.consumers)
    for name, store in settings.storage.items():
        if isinstance(store, S3StoreSpec | HttpStoreSpec | HubStoreSpec) and store.credentials is not None:
            # Two stores may share one Secret; only one that we make ourselves would be overwritten.
            ours = {server_key_secret(model) for model in settings.models} | {consumer_secret(each) for each in settings.consumers}
            if store.credentials.secret_name in ours:
                yield store.credentials.secret_name, ("storage", name, "credentials", "secretName")


def _shared_places(settings: StackSettings) -> Iterator[SpecError]:
    """A volume and its claim are named by the place that they stand for, so that a store may be renamed."""
    places: dict[tuple[object, ...], str] = {}
    for name, store in settings.storage.items():
        place: tuple[object, ...]
        if isinstance(store, NfsStoreSpec):
            place = (store.server, store.path, *store.mount_options)
        elif isinstance(store, NodeDiskStoreSpec):
            place = (store.pool, store.path)
        else:
            continue
        first = places.setdefault(place, name)
        if first != name:
            yield SpecError(("storage", name), f"is the same place as storage.{first}; use {first} instead and remove this store")


def _metrics(settings: StackSettings) -> Iterator[SpecError]:
    """The network policy of a model's metrics is called like the model with an ending of ours."""
    for name in settings.models if settings.monitoring is not None else ():
        called = bounded(name, "metrics")
        if called in settings.models:
            yield SpecError(
                ("models", called), f"{called!r} is what the network policy of {name}'s metrics is called; call the model differently"
            )


def _accounts(settings: StackSettings) -> Iterator[SpecError]:
    """The service account of a model's preheat, where it has one, is called like the model with an ending of ours."""
    for name, model in settings.models.items():
        account = bounded(name, "preheat")
        if model.preheat is not None and account in settings.models:
            yield SpecError(
                ("models", account), f"{account!r} is what the service account of {name}'s preheat is called; call the model differently"
            )
