"""Keys in a gateway's Secret cannot be guessed and have no prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, StackRule, found
from policies.subjects.keys import decoded, entropy_bits
from policies.subjects.placement import same_namespace
from policies.subjects.routes import SECURITY_POLICY


def _check(stack: Stack, given: Parameters) -> Findings:
    for policy in stack.of(SECURITY_POLICY):
        with stack.doubts:
            named = {each.at("name").text() for each in policy.at("spec", "apiKeyAuth", "credentialRefs").each()}
            for secret in stack.of("kubernetes:core:Secret"):
                with stack.doubts:
                    if secret.at("metadata", "name").text() in named and same_namespace(secret, policy):
                        yield from _weak(stack, secret, given["bits"])


def _weak(stack: Stack, secret: Resource, bits: float) -> Findings:
    for field, read in _clients(secret):
        with stack.doubts:
            key = read(field)
            if key.startswith("Bearer "):
                yield found(field, "starts with Bearer, which is not part of a key", urn=secret.urn)
            elif entropy_bits(key) < bits:
                yield found(field, f"has less than {bits:g} bits of entropy", urn=secret.urn)


def _clients(secret: Resource) -> Iterator[tuple[Field, Callable[[Field], str]]]:
    """Every entry of a Secret is one client's key: its place, and how to read it."""
    for _name, field in secret.at("stringData").entries():
        yield field, Field.text
    for _name, field in secret.at("data").entries():
        yield field, decoded


RULE = StackRule(
    id="stack-require-client-keys",
    title="Keys in a gateway's Secret cannot be guessed and have no prefix",
    severity=Severity.CRITICAL,
    refs=("inference", "Envoy Gateway: SecurityPolicy"),
    why="Envoy compares the whole entry. A short key can be brute-forced, and a key with the prefix Bearer matches no request",
    remedy="give each consumer an entry with 32 random bytes, for example from openssl rand -hex 32, without a prefix",
    check=_check,
    parameters={
        "bits": Parameter(default=128, description="Minimum entropy of a consumer's key in bits", schema={"type": "number", "minimum": 64})
    },
)
