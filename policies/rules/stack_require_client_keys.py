"""Keys that a proxy reads from a Secret cannot be guessed, and are nothing but keys."""

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
                yield found(field, "starts with Bearer, which no client's key does", urn=secret.urn)
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
    title="Keys that a proxy reads from a Secret cannot be guessed, and are nothing but keys",
    severity=Severity.CRITICAL,
    refs=("inference", "Envoy Gateway: SecurityPolicy"),
    why="Envoy compares an entry as it stands: a short one falls to patience, and one with Bearer before it lets nobody in",
    remedy="give each client an entry of its own with 32 random bytes, as openssl rand -hex 32 prints them, and no word before the key",
    check=_check,
    parameters={
        "bits": Parameter(default=128, description="The least entropy of a client's key, in bits", schema={"type": "number", "minimum": 64})
    },
)
