"""Where keys enter: derived from the stack's encrypted seed, kept as Kubernetes Secrets, lent as references.

A consumer's key is derived from the seed, or imported by the user. No key leaves except inside a Secret. It checks no request (the gateway does) and keeps no list of retired keys: a version
that the stack no longer names is not written anywhere, so nothing accepts it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta

from components.gateway import keys
from components.gateway.imported_keys import ImportedKeys
from components.gateway.names import (
    CLIENTS_SECRET,
    CREDENTIAL,
    ISSUED,
    NEXT_KEY,
    PROXY_SECRET,
    SECRET_KEY,
    client_id,
    consumer_secret,
    server_key_secret,
)
from components.gateway.proxy_keys import PROXY_FILE, key_of, proxy_keys
from components.handles import SecretRef
from components.naming import labels

if TYPE_CHECKING:
    from datetime import date

    from components.gateway.consumer_spec import ConsumerSpec


class KeyRing(Protocol):
    """What the gateway borrows: who holds keys, of one seed or two, the Secret with their hashes, and a mark that changes when that does."""

    consumers: Mapping[str, ConsumerSpec]
    two_seeds: bool
    proxy_secret: pulumi.Output[str]
    fingerprint: pulumi.Output[str]


@dataclass(frozen=True)
class _Material:
    """What keys are made of, once it is known."""

    seed: str = field(repr=False)
    previous: str | None = field(repr=False)
    own: ImportedKeys = field(repr=False)


class ApiKeys(pulumi.ComponentResource):
    """One Secret for each model's server, one for each consumer, one for the proxy; lends references to them.

    The proxy's holds hashes, or the keys themselves where `in_clear` says that it can compare nothing else. `seeds` are the
    current seed and, during a rotation, the previous one: then consumers' keys of both are valid, and the gateway presents the previous server keys, which servers that have not been
    replaced yet accept too.

    Their names are fixed and their content changes in place, so the Kubernetes provider must have enableSecretMutable on:
    without it each rotation would delete the Secret first.
    """

    proxy_secret: pulumi.Output[str]
    """The proxy's Secret by its live name, so that whoever mounts it waits for its latest content."""
    fingerprint: pulumi.Output[str]
    """Changes with every change of the proxy's Secret and says nothing about its content."""

    def __init__(
        self,
        name: str,
        consumers: Mapping[str, ConsumerSpec],
        models: Sequence[str],
        *,
        namespace: pulumi.Input[str],
        seeds: Sequence[pulumi.Input[str]],
        imported_keys: Mapping[str, Mapping[int, pulumi.Input[str]]] | None = None,
        in_clear: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        intent = {"consumers": {each: spec.intent() for each, spec in consumers.items()}, "models": list(models)}
        super().__init__("inferplan:gateway:ApiKeys", name, {"spec": intent}, opts)
        self._server_marks: dict[str, dict[SecretRef, pulumi.Output[str]]] = {}
        self.consumers: Mapping[str, ConsumerSpec] = dict(consumers)
        self.two_seeds = len(seeds) > 1
        by_owner = {(who, version): key for who, versions in (imported_keys or {}).items() for version, key in versions.items()}
        # In a list: an Output takes a mapping apart, and these have pairs for keys.
        own = pulumi.Output.secret(pulumi.Output.all(*by_owner.values()))
        secret_seeds = pulumi.Output.secret(pulumi.Output.all(*seeds))
        material = pulumi.Output.all(secret_seeds, own).apply(
            lambda both: _Material(both[0][0], both[0][1] if self.two_seeds else None, dict(zip(by_owner, both[1], strict=True)))
        )
        for model in models:
            self._server_marks[model] = self._server_keys(f"{name}-server-{model}", model, namespace, material, in_clear=in_clear)
        for consumer, spec in consumers.items():
            newest = material.apply(lambda has, who=consumer, spec=spec: key_of(has.seed, who, spec.newest, spec, has.own))
            self._secret(
                f"{name}-consumer-{consumer}",
                consumer_secret(consumer),
                namespace,
                {SECRET_KEY: newest},
                issued=spec.issued.get(spec.newest),
            )
        proxy = material.apply(lambda has: proxy_keys(has.seed, self.consumers, models, has.own, previous_seed=has.previous))
        oldest = min((day for spec in consumers.values() for day in spec.issued.values()), default=None)
        if in_clear:
            secret = self._secret(f"{name}-clients", CLIENTS_SECRET, namespace, self._clients(material), issued=oldest)
        else:
            secret = self._secret(name, PROXY_SECRET, namespace, {PROXY_FILE: proxy.apply(lambda made: made.text)}, issued=oldest)
        self.proxy_secret = secret.metadata.name
        # It must show in a pod template; it is an HMAC under a derived key, so it may.
        self.fingerprint = pulumi.Output.unsecret(proxy.apply(lambda made: made.fingerprint))
        self.register_outputs({"proxySecret": self.proxy_secret, "fingerprint": self.fingerprint})

    def _server_keys(
        self, name: str, model: str, namespace: pulumi.Input[str], material: pulumi.Output[_Material], *, in_clear: bool
    ) -> dict[SecretRef, pulumi.Output[str]]:
        """Declares the Secret of one server; returns a mark for each key in it."""
        # The gateway presents the first: the one that every server accepts, replaced or not.
        seeds = {SECRET_KEY: material.apply(lambda has: has.previous or has.seed)}
        if self.two_seeds:
            seeds[NEXT_KEY] = material.apply(lambda has: has.seed)
        content = {field: seed.apply(lambda text: keys.server_key(text, model)) for field, seed in seeds.items()}
        bearer = {CREDENTIAL: content[SECRET_KEY].apply(_bearer)} if in_clear else {}
        made = self._secret(name, server_key_secret(model), namespace, {**content, **bearer})
        # By way of the Secret's live name: a pod that starts anew because the key changed must find the new one in place.
        marks = {
            field: pulumi.Output.all(made.metadata.name, seed, content[field]).apply(lambda three: keys.fingerprint(three[1], three[2]))
            for field, seed in seeds.items()
        }
        return {SecretRef(name=server_key_secret(model), key=field): pulumi.Output.unsecret(mark) for field, mark in marks.items()}

    def _clients(self, material: pulumi.Output[_Material]) -> dict[str, pulumi.Output[str]]:
        owners = [(who, version, spec) for who, spec in self.consumers.items() for version in spec.keys]
        clients = {
            client_id(who, version): material.apply(lambda has, of=(who, version, spec): key_of(has.seed, *of, has.own))
            for who, version, spec in owners
        }
        if self.two_seeds:
            clients |= {
                client_id(who, version, previous=True): material.apply(
                    lambda has, of=(who, version): keys.consumer_key(has.previous or has.seed, *of)
                )
                for who, version, spec in owners
                if version not in spec.imported_keys
            }
        return clients

    def server_key(self, model: str) -> SecretRef:
        """Where the key of `model`'s server is kept.

        Raises KeyError when no key was made for that model.
        """
        if model not in self._server_marks:
            raise KeyError(f"no server key was made for {model!r}; name it among the models of ApiKeys")
        return SecretRef(name=server_key_secret(model), key=SECRET_KEY)

    def server_key_marks(self, model: str) -> Mapping[SecretRef, pulumi.Output[str]]:
        """A mark for each key of `model`'s server, the one that the gateway presents first. A mark changes with its key.

        It says nothing about the key, so a pod template may show it.

        Raises KeyError when no key was made for that model.
        """
        return self._server_marks[model]

    def consumer_key(self, consumer: str) -> SecretRef:
        """Where the newest key of `consumer` is kept, for clients inside the cluster.

        Raises KeyError when there is no such consumer.
        """
        if consumer not in self.consumers:
            raise KeyError(f"there is no consumer {consumer!r}; there are {', '.join(sorted(self.consumers)) or 'none'}")
        return SecretRef(name=consumer_secret(consumer), key=SECRET_KEY)

    def _secret(
        self,
        name: str,
        called: str,
        namespace: pulumi.Input[str],
        content: Mapping[str, pulumi.Output[str]],
        *,
        issued: date | None = None,
    ) -> core.Secret:
        notes = None if issued is None else {ISSUED: issued.isoformat()}
        return core.Secret(
            name,
            metadata=meta.ObjectMetaArgs(name=called, namespace=namespace, labels=labels("api-keys", called), annotations=notes),
            type="Opaque",
            # `data`, since a field that leaves `stringData` would stay in the cluster under server-side apply.
            data={key: value.apply(_base64) for key, value in content.items()},
            opts=pulumi.ResourceOptions(parent=self),
        )


def _bearer(key: str) -> str:
    return f"Bearer {key}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
