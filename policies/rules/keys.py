"""API keys: age, versions, entropy, and servers that require one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, found, resource_rule, stack_rule
from policies.subjects.keys import KEYS, days_between, decoded, entropy_bits, key_entries, versions_in
from policies.subjects.placement import same_namespace
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.routes import SECURITY_POLICY
from policies.subjects.serving import starts_vllm


@resource_rule(
    KEYS,
    Severity.MEDIUM,
    "inference",
    "NSA-CISA: key rotation",
    parameters={"days": Parameter(365, "Maximum age of a key in days", minimum=1)},
)
def key_limit_age(secret: Resource, given: Parameters) -> Findings:
    """API keys are at most one year old.

    Why: Everyone who ever had a key can use it until it changes.
    Remedy: add a version with inferplan keys add and retire the old one; the annotation inferplan.dev/issued holds the key's date.
    """
    issued = secret.at("metadata", "annotations", "inferplan.dev/issued")
    if issued.absent:
        return
    age = days_between(issued.text(), given.today)
    if age is None:
        yield found(issued, "is not a date (YYYY-MM-DD)")
    elif age < -1:
        # A day of grace, since clocks and time zones differ.
        yield found(issued, "is in the future")
    elif age > given["days"]:
        yield found(issued, f"is more than {given['days']:g} days ago")


@resource_rule(
    KEYS,
    Severity.MEDIUM,
    parameters={"versions": Parameter(2, "Maximum number of valid versions of a key", minimum=1)},
)
def key_limit_valid_versions(secret: Resource, given: Parameters) -> Findings:
    """Few versions of a key are valid at the same time.

    Why: Each valid version is one more key that can leak. Two are enough to rotate without downtime.
    Remedy: retire the oldest version when its consumer has moved.
    """
    for field, count in versions_in(secret):
        if count > given["versions"]:
            yield found(field, f"holds more than {given['versions']:g} versions of a key")


@resource_rule(
    KEYS,
    Severity.CRITICAL,
    "inference",
    "NSA-CISA: secrets",
    parameters={"bits": Parameter(128, "Minimum entropy of an API key in bits", minimum=64)},
)
def key_require_entropy(secret: Resource, given: Parameters) -> Findings:
    """API keys cannot be guessed.

    Why: A key with less than 128 random bits can be brute-forced.
    Remedy: use 32 random bytes, for example from openssl rand -hex 32.
    """
    for field, text in key_entries(secret):
        if entropy_bits(text) < given["bits"]:
            yield found(field, f"has less than {given['bits']:g} bits of entropy")


VARIABLE, OPTION = "VLLM_API_KEY", "--api-key"


@resource_rule(CONTAINERS, Severity.HIGH, "inference", "vLLM: Security, API key")
def model_require_server_key(container: Container, _: Parameters) -> Findings:
    """vLLM servers require an API key.

    Why: A pod that gets past a network policy reaches the model without the gateway. The server's own key still stops it.
    Remedy: set env VLLM_API_KEY with valueFrom.secretKeyRef, without optional.
    """
    # Words of a server that other pods ask: a port, and the command that listens.
    if container.init or container.ephemeral or not starts_vllm(container) or not any(True for _ in container.at("ports").each()):
        return
    if container.option(OPTION):
        return
    entry = container.environment().get(VARIABLE)
    if entry is None:
        yield found(container.at("env"), f"has no {VARIABLE}, so anyone who can reach the port can use the model")
        return
    reference = entry.at("valueFrom", "secretKeyRef")
    if reference.absent and not entry.at("value").text():
        yield found(entry.at("value"), "is empty, so anyone who can reach the port can use the model")
    if reference.at("optional").flag():
        yield found(reference.at("optional"), "lets the server start without its key")


@stack_rule(
    Severity.CRITICAL,
    "inference",
    "Envoy Gateway: SecurityPolicy",
    parameters={"bits": Parameter(128, "Minimum entropy of a consumer's key in bits", minimum=64)},
)
def stack_require_client_keys(stack: Stack, given: Parameters) -> Findings:
    """Keys in a gateway's Secret cannot be guessed and have no prefix.

    Why: Envoy compares the whole entry. A short key can be brute-forced, and a key with the prefix Bearer matches no request.
    Remedy: give each consumer an entry with 32 random bytes, for example from openssl rand -hex 32, without a prefix.
    """
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
