"""Creates the Kubernetes Secrets with API keys, and exports references to them. A version outside
the stack file is in no Secret.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pulumi

from inferplan.components.fields import present
from inferplan.components.gateway import keys
from inferplan.components.gateway.consumer_spec import ConsumerSpec, KeyRecord
from inferplan.components.gateway.imported_keys import ImportedKeys
from inferplan.components.gateway.keys import (
    CLIENTS_SECRET,
    CREDENTIAL,
    NEXT_KEY,
    PROXY_SECRET,
    SECRET_KEY,
    client_id,
    consumer_secret,
    server_key_secret,
    server_keys_secret,
)
from inferplan.components.gateway.proxy_keys import PROXY_FILE, key_of, proxy_keys
from inferplan.components.handles import SecretRef
from inferplan.components.kubernetes import core, meta
from inferplan.components.naming import bounded, content_key, labels
from inferplan.kube.names import ISSUED


@dataclass(frozen=True)
class _KeyMaterial:
    """The seed and the imported keys in plain text, inside an Output."""

    seed: str = field(repr=False)
    previous: str | None = field(repr=False)
    imported: ImportedKeys = field(repr=False)


class ApiKeys(pulumi.ComponentResource):
    """One Secret per model server, one per consumer and one for the gateway; exports references to
    them.

    The gateway's Secret contains hashes, or the keys in plain text with `plain_text`, for a gateway
    that cannot compare hashes. `seeds` are the current seed and, during a rotation, the previous
    one: then consumers' keys of both are valid, and the gateway sends the previous server keys,
    which old servers accept too.

    The Secret that nginx mounts is named by everything public that decides its content (consumers,
    versions, models, a rotation), so a plan without the passphrase has the same name: a change
    creates a new Secret next to the old one, which old pods read until the rollout ends, even if
    they restart. Both keys of a server during a rotation are in a Secret of their own, for the same
    reason. Other names are fixed and their content changes in place, as the gateway's does for a
    new seed without a rotation. So the Kubernetes provider must have enableSecretMutable on:
    without it, each change in place would delete the Secret first.
    """

    proxy_secret: pulumi.Output[str]
    """The live name of the gateway's Secret, so that pods that mount it wait for its latest
    content.
    """
    fingerprint: pulumi.Output[str]
    """Changes with every change of the gateway's Secret and reveals nothing about its content."""

    def __init__(  # noqa: PLR0913 - each is one part of the component's spec or one kind of secret
        self,
        name: str,
        consumers: Mapping[str, ConsumerSpec],
        models: Sequence[str],
        *,
        namespace: pulumi.Input[str],
        seeds: Sequence[pulumi.Input[str]],
        imported_keys: Mapping[str, Mapping[int, pulumi.Input[str]]] | None = None,
        history: Mapping[str, KeyRecord] | None = None,
        plain_text: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        self.two_seeds = len(seeds) > 1
        intent = {
            "consumers": {each: spec.intent() for each, spec in consumers.items()},
            "models": list(models),
        }
        # The end of a rotation denies keys although no consumer's Secret changes: a preview has to
        # show it.
        rotation = {"previousSeed": True} if self.two_seeds else {}
        records = {each: record.intent() for each, record in (history or {}).items()}
        spec = {**intent, **rotation, **({"history": records} if records else {})}
        super().__init__("inferplan:gateway:ApiKeys", name, {"spec": spec}, opts)
        self._server_fingerprints: dict[str, dict[SecretRef, pulumi.Output[str]]] = {}
        self.consumers: Mapping[str, ConsumerSpec] = dict(consumers)
        material = self._material(seeds, imported_keys or {})
        for model in models:
            self._server_fingerprints[model] = self._server_keys(
                name, model, namespace, material, plain_text=plain_text
            )
        self._consumer_keys(name, namespace, material)
        proxy = material.apply(
            lambda values: proxy_keys(
                values.seed, self.consumers, models, values.imported, previous_seed=values.previous
            )
        )
        oldest = min(
            (day for spec in consumers.values() for day in spec.issued.values()), default=None
        )
        if plain_text:
            clients = self._clients(material)
            secret = self._secret(
                f"{name}-clients", CLIENTS_SECRET, namespace, clients, issued=oldest
            )
        else:
            proxy_name = bounded(PROXY_SECRET, content_key(_public(intent, rotation)))
            # The resource is named by content too: if the change is reverted after a failed
            # update, the old Secret is not a replaced one that waits for its deletion.
            content = {PROXY_FILE: proxy.apply(lambda file: file.text)}
            secret = self._secret(proxy_name, proxy_name, namespace, content, issued=oldest)
        self.proxy_secret = secret.metadata["name"]
        # A pod template shows it, which is safe: it is an HMAC under a derived key.
        self.fingerprint = pulumi.Output.unsecret(proxy.apply(lambda file: file.fingerprint))
        self.register_outputs({"proxySecret": self.proxy_secret, "fingerprint": self.fingerprint})

    def _material(
        self,
        seeds: Sequence[pulumi.Input[str]],
        imported_keys: Mapping[str, Mapping[int, pulumi.Input[str]]],
    ) -> pulumi.Output[_KeyMaterial]:
        by_owner = {
            (who, version): key
            for who, versions in imported_keys.items()
            for version, key in versions.items()
        }
        # As a list: an Output cannot contain a mapping whose keys are tuples.
        imported = pulumi.Output.secret(pulumi.Output.all(*by_owner.values()))
        secret_seeds = pulumi.Output.secret(pulumi.Output.all(*seeds))
        return pulumi.Output.all(secret_seeds, imported).apply(
            lambda both: _KeyMaterial(
                both[0][0],
                both[0][1] if self.two_seeds else None,
                dict(zip(by_owner, both[1], strict=True)),
            )
        )

    def _consumer_keys(
        self, name: str, namespace: pulumi.Input[str], material: pulumi.Output[_KeyMaterial]
    ) -> None:
        for consumer, spec in self.consumers.items():
            newest = material.apply(
                lambda values, who=consumer, spec=spec: key_of(
                    values.seed, who, spec.newest, spec, values.imported
                )
            )
            self._secret(
                f"{name}-consumer-{consumer}",
                consumer_secret(consumer),
                namespace,
                {SECRET_KEY: newest},
                issued=spec.issued.get(spec.newest),
            )

    def _server_keys(
        self,
        name: str,
        model: str,
        namespace: pulumi.Input[str],
        material: pulumi.Output[_KeyMaterial],
        *,
        plain_text: bool,
    ) -> dict[SecretRef, pulumi.Output[str]]:
        """Create the Secret of one server, and with two seeds one with both keys; return a
        fingerprint of each key, those of the latter first: a server that accepts two reads them.
        """
        # The gateway sends the first key, which old and new servers accept.
        first = material.apply(lambda values: values.previous or values.seed)
        marks: dict[SecretRef, pulumi.Output[str]] = {}
        if self.two_seeds:
            # It exists during a rotation only, so that old pods that start again find their keys.
            newest = material.apply(lambda values: values.seed)
            both = {SECRET_KEY: first, NEXT_KEY: newest}
            marks |= self._server_secret(
                f"{name}-rotation-{model}", server_keys_secret(model), namespace, model, both
            )
        return marks | self._server_secret(
            f"{name}-server-{model}",
            server_key_secret(model),
            namespace,
            model,
            {SECRET_KEY: first},
            plain_text=plain_text,
        )

    def _server_secret(
        self,
        name: str,
        secret_name: str,
        namespace: pulumi.Input[str],
        model: str,
        seeds: Mapping[str, pulumi.Output[str]],
        *,
        plain_text: bool = False,
    ) -> dict[SecretRef, pulumi.Output[str]]:
        content = {
            field: seed.apply(lambda text: keys.server_key(text, model))
            for field, seed in seeds.items()
        }
        bearer = {CREDENTIAL: content[SECRET_KEY].apply("Bearer {}".format)} if plain_text else {}
        secret = self._secret(name, secret_name, namespace, {**content, **bearer})
        # Depends on the Secret's live name: a pod that restarts because the key changed must find
        # the new key.
        fingerprints = {
            field: (
                pulumi.Output.all(secret.metadata["name"], seed, content[field]).apply(
                    lambda three: keys.fingerprint(three[1], three[2])
                )
            )
            for field, seed in seeds.items()
        }
        return {
            SecretRef(name=secret_name, key=field): pulumi.Output.unsecret(each)
            for field, each in fingerprints.items()
        }

    def _clients(self, material: pulumi.Output[_KeyMaterial]) -> dict[str, pulumi.Output[str]]:
        """Every valid key by client id, in plain text."""
        clients, previous = {}, {}
        for owner in (
            (who, version, spec) for who, spec in self.consumers.items() for version in spec.keys
        ):
            who, version, spec = owner
            clients[client_id(who, version)] = material.apply(
                lambda values, of=owner: key_of(values.seed, *of, values.imported)
            )
            if self.two_seeds and version not in spec.imported_keys:
                previous[client_id(who, version, previous=True)] = material.apply(
                    lambda values, of=(who, version): keys.consumer_key(
                        values.previous or values.seed, *of
                    )
                )
        return clients | previous

    def server_key(self, model: str) -> SecretRef:
        """Return a reference to the key of `model`'s server. Raises KeyError for a model without
        one.
        """
        if model not in self._server_fingerprints:
            raise KeyError(f"No server key for {model!r}. Add it to the models of ApiKeys.")
        return keys.server_key_ref(model)

    def server_key_marks(self, model: str) -> Mapping[SecretRef, pulumi.Output[str]]:
        """Return a fingerprint of each key of `model`'s server, the gateway's first; it reveals
        nothing about the key. Raises KeyError.
        """
        return self._server_fingerprints[model]

    def consumer_key(self, consumer: str) -> SecretRef:
        """Return a reference to the newest key of `consumer`, for clients inside the cluster.
        Raises KeyError.
        """
        if consumer not in self.consumers:
            raise KeyError(
                f"Unknown consumer {consumer!r}. Consumers in this stack:"
                f" {', '.join(sorted(self.consumers)) or 'none'}."
            )
        return SecretRef(name=consumer_secret(consumer), key=SECRET_KEY)

    def _secret(
        self,
        name: str,
        secret_name: str,
        namespace: pulumi.Input[str],
        content: Mapping[str, pulumi.Output[str]],
        *,
        issued: date | None = None,
    ) -> core.Secret:
        annotations = None if issued is None else {ISSUED: issued.isoformat()}
        return core.Secret(
            name,
            metadata=present(
                meta.ObjectMetaArgsDict(
                    name=secret_name,
                    namespace=namespace,
                    labels=labels("api-keys", secret_name),
                    annotations=annotations,
                )
            ),
            type="Opaque",
            # `data`, not `stringData`: with server-side apply a field removed from `stringData`
            # stays in the cluster.
            data={
                key: value.apply(lambda text: base64.b64encode(text.encode()).decode())
                for key, value in content.items()
            },
            opts=pulumi.ResourceOptions(parent=self),
        )


def _public(intent: Mapping[str, Any], rotation: Mapping[str, bool]) -> str:
    """Everything public that decides the content of the gateway's Secret, as JSON."""
    # The day of issue is an annotation, not content.
    rights = {
        each: {key: value for key, value in consumer.items() if key != "issued"}
        for each, consumer in intent["consumers"].items()
    }
    return json.dumps([{**intent, "consumers": rights}, rotation], sort_keys=True)
