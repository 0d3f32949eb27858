"""Lost access: compares consumers of models and their keys before and after a change.

A component whose spec lists consumers is a model; a component whose spec maps consumers to key versions holds the keys. Without a
gateway no model can be called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube.names import INSTANCE_LABEL
from kube.paths import mapping
from review.kinds import CRITICAL, DISRUPTIVE
from review.preview import SECRET, Preview, Side
from review.risk import Risk
from review.text import clean

_GATEWAY = "inferplan:gateway:Gateway"
_KEYS = "inferplan:gateway:ApiKeys"
_CONSUMER = "consumer-"


@dataclass(frozen=True, slots=True)
class _Side:
    """Access on one side: consumers by model, with the model's URN, and key versions by consumer."""

    models: Mapping[str, tuple[str, tuple[str, ...]]]
    keys: Mapping[str, tuple[str, ...]]
    two_seeds: bool
    """True during a rotation, while the keys of the previous seed are valid too."""


def lost_access(preview: Preview) -> Iterator[Risk]:
    """The risks of `preview` for consumers of models."""
    before, after = _side(preview, old=True), _side(preview, old=False)
    for model, (urn, consumers) in sorted(before.models.items()):
        remaining = after.models.get(model, ("", ()))
        missing = [each for each in consumers if each not in remaining[1]]
        if missing:
            is_removed = model not in after.models
            yield Risk(
                weight=CRITICAL,
                what=f"{_listed(missing)} can no longer call",
                kind="model",
                name=model,
                urn=urn,
                cause="the model or the gateway is removed" if is_removed else "removed from its consumers",
                consequence="requests fail (404)" if is_removed else "requests with their keys are denied (403)",
                order=0,
            )
    owner = next((step.urn for step in preview.steps if step.type == _KEYS), "")
    yield from _lost_keys(owner, before.keys, after.keys)
    yield from _other_keys(preview, owner, before, after)


def _lost_keys(owner: str, before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]) -> Iterator[Risk]:
    for consumer, versions in sorted(before.items()):
        missing = [each for each in versions if each not in after.get(consumer, ())]
        if missing:
            some = f"{'key' if len(missing) == 1 else 'keys'} {', '.join(missing)}"
            noun = some if consumer in after else f"every key ({some})"
            yield Risk(
                weight=CRITICAL,
                what=f"loses {noun}",
                kind="consumer",
                name=consumer,
                urn=owner,
                cause=f"{'version' if len(missing) == 1 else 'versions'} {', '.join(missing)} dropped",
                consequence="requests that still use them are denied (401)"
                if len(missing) > 1
                else "requests that still use it are denied (401)",
                order=1,
            )


def _other_keys(preview: Preview, owner: str, before: _Side, after: _Side) -> Iterator[Risk]:
    """The risk of other keys for the same versions, and of the end of a rotation of the seed."""
    consumers = [each for each in _changed_secrets(preview) if before.keys.get(each) and before.keys.get(each) == after.keys.get(each)]
    seeds = "apiKeySeed or an imported key changed: the same key versions have other values"
    old_denied = "requests with the old keys are denied (401) until every client has its new key"
    old_valid = "the old keys stay valid until previousApiKeySeed is removed: give every client its new key before"
    if consumers and after.two_seeds:
        yield _keys_risk(owner, consumers, DISRUPTIVE, "all keys change for", seeds, old_valid)
    elif consumers:
        yield _keys_risk(owner, consumers, CRITICAL, "all keys change for", seeds, old_denied)
    remaining = sorted({*before.keys} & {*after.keys})
    if remaining and before.two_seeds and not after.two_seeds:
        ended = "previousApiKeySeed is removed"
        yield _keys_risk(owner, remaining, CRITICAL, "keys of the previous seed end for", ended, "requests with them are denied (401)")


def _keys_risk(owner: str, consumers: list[str], weight: int, what: str, cause: str, consequence: str) -> Risk:
    kind = "consumer" if len(consumers) == 1 else "consumers"
    return Risk(weight=weight, what=what, kind=kind, name=_listed(consumers), urn=owner, cause=cause, consequence=consequence, order=1)


def _changed_secrets(preview: Preview) -> Iterator[str]:
    """The consumers whose Secret gets other values."""
    for step in preview.changed:
        if step.type != SECRET or step.op not in ("update", "replace") or step.old is None or step.new is None:
            continue
        old, new = (_labels(state).get(INSTANCE_LABEL, "") for state in (step.old, step.new))
        if isinstance(new, str) and old == new and new.startswith(_CONSUMER) and step.data_changes:
            yield clean(new.removeprefix(_CONSUMER))


def _labels(side: Side) -> dict[str, Any]:
    return mapping(side.inputs, "metadata", "labels")


def _side(preview: Preview, *, old: bool) -> _Side:
    models: dict[str, tuple[str, tuple[str, ...]]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    has_gateway = two_seeds = False
    for step in preview.steps:
        if not step.type.startswith("inferplan:"):
            continue
        state = (step.old or (step.new if step.op == "same" else None)) if old else (None if step.op in ("delete", "discard") else step.new)
        spec = mapping(state.inputs if state else None, "spec")
        if state is None:
            continue
        has_gateway = has_gateway or step.type == _GATEWAY
        consumers = spec.get("consumers")
        if isinstance(consumers, list):
            models[clean(step.name)] = (clean(step.urn), tuple(clean(str(each)) for each in consumers))
        elif isinstance(consumers, dict) and step.type == _KEYS:
            keys = {clean(name): _versions(each) for name, each in consumers.items()}
            two_seeds = spec.get("previousSeed") is True
    return _Side(models if has_gateway else {}, keys, two_seeds)


def _versions(consumer: Any) -> tuple[str, ...]:
    versions = consumer.get("keys") if isinstance(consumer, dict) else None
    own = consumer.get("importedKeys") if isinstance(consumer, dict) else None
    texts = [str(each) for each in versions] if isinstance(versions, list) else []
    return tuple(sorted({*map(clean, texts), *(map(clean, own) if isinstance(own, dict) else ())}))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
