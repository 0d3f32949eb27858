"""Public components for callers of models: API keys and the gateway."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pydantic import TypeAdapter

from inferplan.components.gateway.api_keys import ApiKeys as Keys
from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.gateway import Gateway as NginxGateway
from inferplan.components.gateway.keys import consumer_secret, seed_weakness
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import Endpoint
from inferplan.components.public import args as types
from inferplan.components.public.inputs import Check, Extra, Inputs
from inferplan.components.public.storage import NAMESPACE
from inferplan.components.spec import Name, Spec
from inferplan.documents.errors import SpecError

CONSUMERS = Extra(
    "dict[str, Consumer]", "The holders of API keys by name; the same for ApiKeys and Gateway."
)


class _Consumers(Spec):
    consumers: dict[Name, ConsumerSpec]


@dataclass(frozen=True, kw_only=True)
class _GatewayKeys:
    """The keys of a gateway: their Secret, its fingerprint, and their holders. There is one seed."""

    consumers: Mapping[str, ConsumerSpec]
    proxy_secret: pulumi.Input[str]
    fingerprint: pulumi.Input[str]
    two_seeds: bool = False


class ApiKeys(pulumi.ComponentResource):
    """One Secret per consumer, per model server, and for the gateway. Every key is derived from the
    seed and appears only inside Secrets.

    The Kubernetes provider needs `enableSecretMutable`, otherwise each rotation deletes a Secret
    before it creates it again.
    """

    server_key_marks: pulumi.Output[dict[str, str]]
    """A mark of each model server's key, by model: pods restart when it changes. It reveals nothing
    about the key.
    """
    gateway_secret: pulumi.Output[str]
    """The name of the gateway's Secret, which contains hashes only."""
    gateway_fingerprint: pulumi.Output[str]
    """Changes with every change of the gateway's Secret, and reveals nothing about it."""
    consumer_secrets: dict[str, str]
    """The name of the Secret with the newest key of each consumer, by consumer; its field is `key`.
    """

    _inputs = Inputs(
        (),
        {
            "namespace": NAMESPACE,
            "seed": Extra(
                "pulumi.Input[str]",
                "The secret that every key is derived from, at least 32 random characters: `openssl"
                " rand -hex 32`.",
            ),
            "consumers": CONSUMERS,
            "models": Extra("list[str]", "The names of the models, whose servers get a key each."),
        },
    )

    def __init__(
        self, name: str, args: types.ApiKeysArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check = Check(self, name, args, self._inputs)
        spec = check.spec(_Consumers, {"consumers": check.extras["consumers"]})
        check.stop()
        models = list(check.extras["models"])
        super().__init__("inferplan:index:ApiKeys", name, {**spec.intent(), "models": models}, opts)
        keys = Keys(
            name,
            spec.consumers,
            models,
            namespace=check.extras["namespace"],
            seeds=[pulumi.Output.secret(check.extras["seed"]).apply(_strong)],
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.server_key_marks = pulumi.Output.all(
            **{model: next(iter(keys.server_key_marks(model).values())) for model in models}
        )
        self.gateway_secret, self.gateway_fingerprint = keys.proxy_secret, keys.fingerprint
        self.consumer_secrets = {each: consumer_secret(each) for each in spec.consumers}
        self.register_outputs(
            {
                "serverKeyMarks": self.server_key_marks,
                "gatewaySecret": self.gateway_secret,
                "gatewayFingerprint": self.gateway_fingerprint,
                "consumerSecrets": self.consumer_secrets,
            }
        )


class Gateway(pulumi.ComponentResource):
    """nginx pods that check API keys and forward calls to the models. A namespace has one, called
    `gateway` unless its name says otherwise.
    """

    url: str
    """The start of a client's base URL, before `/<model>/v1`."""

    _inputs = Inputs(
        (NginxGatewaySpec,),
        {
            "namespace": NAMESPACE,
            "endpoints": Extra(
                "list[pulumi.Input[ModelEndpoint]]", "The models: the `endpoint` of each service."
            ),
            "consumers": CONSUMERS,
            "keys_secret": Extra("pulumi.Input[str]", "The `gateway_secret` of ApiKeys."),
            "keys_fingerprint": Extra(
                "pulumi.Input[str]",
                "The `gateway_fingerprint` of ApiKeys; pods restart when it changes.",
            ),
        },
        frozenset({"implementation"}),
    )

    def __init__(
        self, name: str, args: types.GatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check = Check(self, name, args, self._inputs)
        extras = check.extras
        spec = check.spec(NginxGatewaySpec, check.settings)
        consumers = check.spec(_Consumers, {"consumers": extras["consumers"]})
        check.stop()
        endpoints = [
            TypeAdapter(Endpoint).validate_python(dict(each)) for each in extras["endpoints"]
        ]
        for endpoint in endpoints:
            if unknown := sorted(set(endpoint.consumers) - consumers.consumers.keys()):
                names = ", ".join(consumers.consumers) or "none"
                check.errors.append(
                    SpecError(
                        ("consumers",),
                        f"{endpoint.model} has the unknown consumers {', '.join(unknown)}."
                        f" Consumers: {names}.",
                    )
                )
        check.stop()
        super().__init__("inferplan:index:Gateway", name, spec.intent(), opts)
        keys = _GatewayKeys(
            consumers=consumers.consumers,
            proxy_secret=extras["keys_secret"],
            fingerprint=extras["keys_fingerprint"],
        )
        self.url = NginxGateway(
            name,
            spec,
            namespace=extras["namespace"],
            endpoints=endpoints,
            keys=keys,
            opts=pulumi.ResourceOptions(parent=self),
        ).url
        self.register_outputs({"url": self.url})


def _strong(seed: str) -> str:
    if weakness := seed_weakness(seed):
        raise pulumi.RunError(f"seed: The seed {weakness}")
    return seed
