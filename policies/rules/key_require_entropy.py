"""API keys cannot be guessed."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.keys import KEYS, entropy_bits, key_entries


def _check(secret: Resource, given: Parameters) -> Findings:
    for field, text in key_entries(secret):
        if entropy_bits(text) < given["bits"]:
            yield found(field, f"has less than {given['bits']:g} bits of entropy")


RULE = Rule(
    id="key-require-entropy",
    title="API keys cannot be guessed",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "NSA-CISA: secrets",
    ),
    why="A key with less than 128 random bits can be brute-forced",
    remedy="use 32 random bytes, for example from openssl rand -hex 32",
    subject=KEYS,
    check=_check,
    parameters={
        "bits": Parameter(default=128, description="Minimum entropy of an API key in bits", schema={"type": "number", "minimum": 64})
    },
)
