"""API keys: age, versions, entropy, and servers that require one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kube.names import ISSUED
from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Parameters, Severity, Violations, parameter, resource_rule, stack_rule, violation
from policies.subjects.keys import KEYS, days_between, decoded, entropy_bits, key_entries, versions_in
from policies.subjects.placement import same_namespace
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.routes import SECURITY_POLICY
from policies.subjects.serving import starts_vllm


@parameter("days", 365, "Maximum age of a key in days", minimum=1)
@resource_rule(KEYS, Severity.MEDIUM, "inference", "NSA-CISA: key rotation")
def key_limit_age(secret: Resource, parameters: Parameters) -> Violations:
    """API keys are at most one year old.

    Why: Anyone who ever had a key can use it until it is retired.
    Remedy: add a version with inferplan keys add and retire the old one; the annotation inferplan.dev/issued contains the date of the key.
    """
    issued = secret.at("metadata", "annotations", ISSUED)
    if issued.absent:
        return
    age = days_between(issued.text(), parameters.today)
    if age is None:
        yield violation(issued, "is not a date (YYYY-MM-DD)")
    elif age < -1:
        # One day is allowed because clocks and time zones differ.
        yield violation(issued, "is in the future")
    elif age > parameters["days"]:
        yield violation(issued, f"is more than {parameters['days']:g} days ago")


@parameter("versions", 2, "Maximum number of valid versions of a key", minimum=1)
@resource_rule(KEYS, Severity.MEDIUM)
def key_limit_valid_versions(secret: Resource, parameters: Parameters) -> Violations:
    """Few versions of a key are valid at the same time.

    Why: Each valid version is one more key that can leak. Two are enough to rotate without downtime.
    Remedy: retire the oldest version when its consumer has moved.
    """
    for field, count in versions_in(secret):
        if count > parameters["versions"]:
            yield violation(field, f"has more than {parameters['versions']:g} versions of a key")


@parameter("bits", 128, "Minimum entropy of an API key in bits", minimum=64)
@resource_rule(KEYS, Severity.CRITICAL, "inference", "NSA-CISA: secrets")
def key_require_entropy(secret: Resource, parameters: Parameters) -> Violations:
    """API keys cannot be guessed.

    Why: A key with less than 128 random bits can be brute-forced.
    Remedy: use 32 random bytes, for example from openssl rand -hex 32.
    """
    for field, text in key_entries(secret):
        if entropy_bits(text) < parameters["bits"]:
            yield violation(field, f"has less than {parameters['bits']:g} bits of entropy")


VARIABLE, OPTION = "VLLM_API_KEY", "--api-key"


@resource_rule(CONTAINERS, Severity.HIGH, "inference", "vLLM: Security, API key")
def model_require_server_key(container: Container, _: Parameters) -> Violations:
    """vLLM servers require an API key.

    Why: A pod that gets past a network policy reaches the model without the gateway. The server's own key still stops it.
    Remedy: set env VLLM_API_KEY with valueFrom.secretKeyRef, without optional.
    """
    if container.init or container.ephemeral or not starts_vllm(container) or not container.at("ports").has_items:
        return
    if container.option(OPTION):
        return
    entry = container.environment().get(VARIABLE)
    if entry is None:
        yield violation(container.at("env"), f"has no {VARIABLE}, so anyone who can reach the port can use the model")
        return
    reference = entry.at("valueFrom", "secretKeyRef")
    if reference.absent and not entry.at("value").text():
        yield violation(entry.at("value"), "is empty, so anyone who can reach the port can use the model")
    if reference.at("optional").flag():
        yield violation(reference.at("optional"), "lets the server start without its key")


@parameter("bits", 128, "Minimum entropy of a consumer's key in bits", minimum=64)
@stack_rule(Severity.CRITICAL, "inference", "Envoy Gateway: SecurityPolicy")
def stack_require_client_keys(stack: Stack, parameters: Parameters) -> Violations:
    """Keys in a gateway's Secret cannot be guessed and have no prefix.

    Why: Envoy compares the whole entry. A short key can be brute-forced, and a key with the prefix Bearer matches no request.
    Remedy: give each consumer an entry with 32 random bytes, for example from openssl rand -hex 32, without a prefix.
    """
    for policy in stack.of(SECURITY_POLICY):
        with stack.unreadable:
            names = {each.at("name").text() for each in policy.at("spec", "apiKeyAuth", "credentialRefs").each()}
            for secret in stack.of("kubernetes:core:Secret"):
                with stack.unreadable:
                    if secret.at("metadata", "name").text() in names and same_namespace(secret, policy):
                        yield from _weak_keys(stack, secret, parameters["bits"])


def _weak_keys(stack: Stack, secret: Resource, bits: float) -> Violations:
    for field, read in _entries(secret):
        with stack.unreadable:
            key = read(field)
            if key.startswith("Bearer "):
                yield violation(field, "starts with Bearer, which is not part of a key", urn=secret.urn)
            elif entropy_bits(key) < bits:
                yield violation(field, f"has less than {bits:g} bits of entropy", urn=secret.urn)


def _entries(secret: Resource) -> Iterator[tuple[Field, Callable[[Field], str]]]:
    """Each entry, which is the key of one consumer, and how to read it."""
    for _name, field in secret.at("stringData").entries():
        yield field, Field.text
    for _name, field in secret.at("data").entries():
        yield field, decoded
