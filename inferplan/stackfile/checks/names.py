"""Checks names: reserved or too long ones, and objects that two entries of a stack would both
create.
"""

from collections.abc import Iterator

from inferplan.components.gateway.consumer_spec import BUDGETS_SERVICE, token_budgets
from inferplan.components.gateway.keys import (
    PROXY_EDGES,
    consumer_secret,
    server_key_secret,
    server_keys_secret,
)
from inferplan.components.naming import bounded
from inferplan.components.router.spec import router_address
from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.stackfile.stack import StackSettings

# Names of objects that every namespace has: the gateway's, the namespace's own, and the service
# account of Kubernetes.
_RESERVED = {
    "gateway": "the gateway",
    PROXY_EDGES: "the network policy of the gateway's proxies",
    "default-deny": "the namespace's network policy",
    "allow-dns": "the namespace's network policy",
    "default": "the default service account of Kubernetes",
    "v1": "the address /v1 of every model",
}
# `<model>-group-<number>` is a StatefulSet; with ten characters of a revision it labels its pods,
# and a label ends at 63.
_LONGEST_GROUP = 63 - 11 - len("-group-")
_SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def errors(settings: StackSettings) -> Iterator[SpecError]:
    yield from _namespace_errors(settings)
    for name, owner in _reserved(settings):
        if name in settings.models:
            yield SpecError(
                ("models", name), f"{name!r} is reserved for {owner}. Rename the model."
            )
    for name, reason in (
        each for spec in MODEL_SPECS.values() for each in spec.reserved_names.items()
    ):
        if name in settings.models:
            yield SpecError(("models", name), f"{name!r} is reserved: {reason}. Rename the model.")
    for name, model in settings.models.items():
        problem = f"{name!r} has {len(name)} characters, but"
        if len(name) > model.longest_name:
            yield SpecError(
                ("models", name),
                f"{problem} {model.longest_name_of} allow {model.longest_name}. Shorten it.",
            )
        longest = _LONGEST_GROUP - len(str(max(0, model.max_replicas - 1)))
        if model.pods > 1 and len(name) > longest:
            yield SpecError(
                ("models", name),
                f"{problem} the StatefulSets of its pods allow {longest}. Shorten it.",
            )
    yield from _claimed_twice(settings)
    yield from _shared_locations(settings)


def _namespace_errors(settings: StackSettings) -> Iterator[SpecError]:
    if settings.namespace in _SYSTEM_NAMESPACES:
        yield SpecError(
            ("namespace",),
            f"Namespace {settings.namespace!r} belongs to Kubernetes. Use another one, for example"
            " inference.",
        )
    declared = [
        each["metadata"] for each in settings.extra_objects.values() if each["kind"] == "Namespace"
    ]
    if settings.adopt_namespace and any(
        isinstance(each, dict) and each.get("name") == settings.namespace for each in declared
    ):
        problem = (
            "adoptNamespace is true, but extraObjects declares the namespace"
            f" {settings.namespace!r}."
        )
        yield SpecError(("adoptNamespace",), f"{problem} Remove one of them.")
    if settings.namespace == settings.cluster.controllers_namespace:
        reserved = (
            f"Namespace {settings.namespace!r} is reserved for the controllers of the cluster."
        )
        yield SpecError(("namespace",), f"{reserved} Use another one, for example inference.")


def _reserved(settings: StackSettings) -> Iterator[tuple[str, str]]:
    """Yield each name that no model may have, and the object that has it."""
    yield from _RESERVED.items()
    if token_budgets(settings.consumers):
        yield BUDGETS_SERVICE, "the Service of token budgets"
    for name, model in settings.models.items():
        for ending in model.operator_services:
            yield f"{name}-{ending}", f"a Service that an operator creates for {name}"
        if model.routed_by is not None:
            yield router_address(name).host, f"the router of {name}"
        if (peer := model.peer(name)) is not None and name == model.whole(name):
            yield f"{name}-transfer", f"the network policy of {name}'s sides"
            if settings.models[peer].whole(peer) == peer:
                yield peer, f"the prefill side of {name}"
        if model.preheat is not None:
            yield bounded(name, "preheat"), f"the service account of {name}'s preheat"
    for name in (*settings.models, "gateway", "preheat") if settings.monitoring is not None else ():
        yield bounded(name, "metrics"), f"the network policy of {name}'s metrics"
    for name in (
        settings.models
        if settings.monitoring is not None and settings.monitoring.tracing is not None
        else ()
    ):
        yield bounded(name, "traces"), f"the network policy of {name}'s traces"


def _claimed_twice(settings: StackSettings) -> Iterator[SpecError]:
    claimed: dict[str, KeyPath] = {}
    for name, path in _secrets(settings):
        if name in claimed:
            other = ".".join(str(part) for part in claimed[name])
            yield SpecError(
                path,
                f"The name {name!r} of its Secret is already used by {other}. Rename one of them.",
            )
        else:
            claimed[name] = path


def _secrets(settings: StackSettings) -> Iterator[tuple[str, KeyPath]]:
    servers = (server_key_secret, server_keys_secret)
    yield from ((each(name), ("models", name)) for name in settings.models for each in servers)
    yield from ((consumer_secret(name), ("consumers", name)) for name in settings.consumers)
    # Two stores may share one Secret; only one that we make ourselves would be overwritten.
    ours = {each(model) for model in settings.models for each in servers} | {
        consumer_secret(each) for each in settings.consumers
    }
    for name, store in settings.storage.items():
        if store.credentials_secret is not None and store.credentials_secret in ours:
            yield store.credentials_secret, ("storage", name, "credentials", "secretName")


def _shared_locations(settings: StackSettings) -> Iterator[SpecError]:
    """Check that no two stores are at the same location, which names their volume and claim."""
    locations: dict[tuple[str, ...], str] = {}
    for name, store in settings.storage.items():
        first = (
            locations.setdefault((store.kind, *store.volume_key), name)
            if store.volume_key
            else name
        )
        if first != name:
            problem = f"Store {name!r} has the same location as {first!r}."
            yield SpecError(
                ("storage", name), f"{problem} Use {first} instead, and remove this store."
            )
