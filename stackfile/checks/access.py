"""Who may call what: consumers that exist, a way in for those that have keys, a seed to derive the keys from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.spec import SpecError
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def errors(settings: StackSettings, *, has_key_seed: bool) -> Iterator[SpecError]:
    """Faults of models' consumers, of the gateway and of the key seed."""
    for name, model in settings.models.items():
        for index, consumer in enumerate(model.consumers):
            if consumer not in settings.consumers:
                yield unknown(("models", name, "consumers", index), consumer, "consumer", settings.consumers, "consumers")
    if settings.consumers and settings.gateway is None:
        yield SpecError(("consumers",), "consumers have keys but nothing checks them; add a gateway, or remove consumers")
    if settings.gateway is not None and settings.gateway.implementation == "envoyGateway":
        yield from _beyond_envoy(settings)
    if (settings.models or settings.consumers) and not has_key_seed:
        yield SpecError(
            ("apiKeySeed",),
            "keys of consumers and of model servers are derived from apiKeySeed, which is missing; "
            'set one with: pulumi config set --secret apiKeySeed "$(openssl rand -hex 32)"',
        )


def _beyond_envoy(settings: StackSettings) -> Iterator[SpecError]:
    """What the stack asks for and an Envoy Gateway cannot do; each would open more than is written, or nothing at all."""
    for name, model in settings.models.items():
        if not model.calls_are_few:
            message = f"{model.engine!r} has calls that implementation envoyGateway cannot list one by one; it carries those of vllm"
            yield SpecError(("models", name, "engine"), f"{message}, so use implementation nginx")
    for name, consumer in settings.consumers.items():
        if consumer.expires:
            message = (
                "implementation envoyGateway has no clock for keys and would go on accepting them; retire versions instead, or use nginx"
            )
            yield SpecError(("consumers", name, "expires"), message)
        if "limits" in consumer.model_fields_set:
            message = "implementation envoyGateway counts no consumer's requests here; remove limits, or use implementation nginx"
            yield SpecError(("consumers", name, "limits"), message)
