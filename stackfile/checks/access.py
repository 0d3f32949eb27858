"""Checks access: consumers that exist, a gateway that checks their keys, a seed to derive the keys from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.spec import SpecError
from stackfile.checks import unknown

if TYPE_CHECKING:
    from components.gateway.spec import GatewaySpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings, *, has_key_seed: bool) -> Iterator[SpecError]:
    """Check models' consumers, the gateway and the key seed."""
    for name, model in settings.models.items():
        for index, consumer in enumerate(model.consumers):
            if consumer not in settings.consumers:
                yield unknown(("models", name, "consumers", index), consumer, "consumer", settings.consumers, "consumers")
    if settings.consumers and settings.gateway is None:
        yield SpecError(("consumers",), "consumers requires gateway, which checks their keys. Add gateway, or remove consumers.")
    if settings.gateway is not None:
        yield from _unsupported(settings, settings.gateway)
    if (settings.models or settings.consumers) and not has_key_seed:
        yield SpecError(
            ("apiKeySeed",),
            "Missing required secret: keys of consumers and model servers are derived from it. "
            'Set it with: pulumi config set --secret apiKeySeed "$(openssl rand -hex 32)"',
        )


def _unsupported(settings: StackSettings, gateway: GatewaySpec) -> Iterator[SpecError]:
    """Yield an error for each setting that the gateway's implementation cannot enforce."""
    implementation = f"implementation {gateway.implementation}"
    for name, model in settings.models.items():
        if not model.calls_are_few and not gateway.matches_paths_by_pattern:
            message = f"{implementation} cannot list the calls of engine {model.engine}. Use engine vllm, or implementation nginx."
            yield SpecError(("models", name, "engine"), message)
    for name, consumer in settings.consumers.items():
        if consumer.expires and not gateway.enforces_expiry:
            message = f"{implementation} cannot enforce expires. Use implementation nginx, or retire the key version instead."
            yield SpecError(("consumers", name, "expires"), message)
        if "limits" in consumer.model_fields_set and not gateway.enforces_limits:
            message = f"{implementation} cannot enforce limits. Use implementation nginx, or remove limits."
            yield SpecError(("consumers", name, "limits"), message)
