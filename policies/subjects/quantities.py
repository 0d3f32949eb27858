"""Kubernetes quantities as numbers. It refuses to guess: other text is a malformed field."""

from __future__ import annotations

from kube.quantity import amount
from policies.engine.fields import Field, MalformedFieldError


def quantity(field: Field) -> float | None:
    """The number that a quantity stands for, None where the field is absent. Raises UnknownFieldError, MalformedFieldError."""
    if field.absent:
        return None
    number = amount(field.text())
    if number is None:
        raise MalformedFieldError(field, "a Kubernetes quantity")
    return float(number)
