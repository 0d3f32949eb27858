"""Plausible outputs for resources that are not Kubernetes objects: a rehearsal sends nothing to a cloud.

A table by type; a type that is not in it gets an id made of its name. Ids are the same on every run. Nothing here
may look like a credential that works.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from rehearsal.engine.providers import aws_stubs as aws
from rehearsal.engine.wire.values import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rehearsal.engine.wire.recording import Registration

Outputs = dict[str, Any]
_TABLE: dict[str, Callable[[Registration, str], Outputs]] = {}


def stand_in(type_: str, outputs: Callable[[Registration, str], Outputs]) -> None:
    """Say what a resource of `type_` answers: `outputs(registration, id)`, on top of its inputs."""
    _TABLE[type_] = outputs


def realize(registration: Registration) -> tuple[str, Outputs]:
    """The id and the outputs of a resource that exists nowhere."""
    digits = hashlib.sha256(registration.urn.encode()).hexdigest()[:8]
    id_ = f"{registration.name}-{digits}"
    outputs = dict(registration.inputs)
    if registration.type.startswith("aws:"):
        id_ = aws.id_of(registration, digits)
        outputs |= aws.outputs_of(registration, id_)
    make = _TABLE.get(registration.type)
    if make is not None:
        outputs |= make(registration, id_)
    return id_, outputs


def _random_password(registration: Registration, id_: str) -> Outputs:
    length = registration.inputs.get("length")
    text = hashlib.sha256(id_.encode()).hexdigest() * 4
    return {"result": Secret(text[: length if isinstance(length, int) else 16])}


def answer(token: str, arguments: Mapping[str, Any]) -> Outputs | None:
    """What the provider function `token` answers, None when the rehearsal has no idea."""
    return aws.answer(token, arguments)


stand_in("random:index/randomPassword:RandomPassword", _random_password)
