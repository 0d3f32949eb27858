"""API keys in Kubernetes Secrets: age, versions, entropy, and servers that require one. No message
contains a part of a key.
"""

import base64
import binascii
import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator

from inferplan.kube.names import ISSUED
from inferplan.policies.engine.fields import Field, MalformedFieldError
from inferplan.policies.engine.resource import Resource, Stack, object_names, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
)
from inferplan.policies.rules.routes import SECURITY_POLICY
from inferplan.policies.subjects.pods import CONTAINERS, Container
from inferplan.policies.subjects.serving import row_of, started_engine, switches_off
from inferplan.policies.subjects.workloads import WORKLOADS

KEYS = objects("kubernetes:core:Secret")
# Names of entries with one API key, and endings of files with many. Other entries can be
# certificates.
_NAMES = ("api-key", "api_key", "apiKey", "key", "token")
_FILES = (".conf", ".map", ".keys")
# The private key of a certificate.
_PEM = "-----BEGIN "
_BEARER = re.compile(r"\bBearer ([A-Za-z0-9._~+/=-]+)")
# Lines of nginx maps: a key by consumer and version, or an imported key by an id that another line
# assigns to a consumer.
_VERSION = re.compile(r"^\s*\"?(([a-z][-a-z0-9]*)_[1-9][0-9]*)\"?\s+\"", re.MULTILINE)
_HEX = re.compile(r"[0-9a-fA-F]+")
# The smallest Shannon entropy per digit of 32 random hexadecimal digits, in bits.
_RANDOM_DIGIT = 3.0
_IMPORTED = re.compile(r"^\s*\"(_[^\"]+)\"\s+([a-z][-a-z0-9]*);", re.MULTILINE)


def key_entries(secret: Resource) -> Iterator[tuple[Field, str]]:
    """Each API key with its field: the value of an entry, and the bearer tokens in a file. Raises
    FieldError.
    """
    for name, field, text in _key_files(secret):
        if name not in _NAMES:
            yield from ((field, token) for token in _BEARER.findall(text))
        elif _PEM not in text:
            yield field, text


def versions_in(secret: Resource) -> Iterator[tuple[Field, int]]:
    """The number of valid versions of each key: the words of an entry, or the lines of a consumer
    in a file. Raises FieldError.
    """
    for name, field, text in _key_files(secret):
        if name in _NAMES:
            yield field, 0 if _PEM in text else len(text.split())
        else:
            lines = {*_VERSION.findall(text), *_IMPORTED.findall(text)}
            consumers = Counter(consumer for _key, consumer in lines)
            yield from ((field, count) for count in consumers.values())


def _entries(secret: Resource) -> Iterator[tuple[str, Field, Callable[[Field], str]]]:
    """Each entry with its name, and how to read it."""
    for key, read in (("stringData", Field.text), ("data", decoded)):
        yield from ((name, field, read) for name, field in secret.at(key).entries())


def _key_files(secret: Resource) -> Iterator[tuple[str, Field, str]]:
    for name, field, read in _entries(secret):
        if name in _NAMES or name.endswith(_FILES):
            yield name, field, read(field)


def decoded(field: Field) -> str:
    try:
        return base64.b64decode(field.text(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise MalformedFieldError(field, "base64 of text") from None


def entropy_bits(text: str) -> float:
    """The entropy of the weakest version of a key in bits, from its length and the frequency of its
    characters.
    """
    return min((_bits(word) for word in text.split()), default=0.0)


def _bits(word: str) -> float:
    counts = Counter(word)
    shannon = -sum(count / len(word) * math.log2(count / len(word)) for count in counts.values())
    if _HEX.fullmatch(word) and shannon >= _RANDOM_DIGIT:
        # Shannon's formula is too low for short texts: sixteen random bytes would have less than
        # 128 bits.
        return 4.0 * len(word)
    return shannon * len(word)


@resource_rule(KEYS)
def key_limit_age(secret: Resource, parameters: Parameters) -> Violations:
    issued = secret.at("metadata", "annotations", ISSUED)
    if issued.absent:
        return
    try:
        age = (dt.date.fromisoformat(parameters.today) - dt.date.fromisoformat(issued.text())).days
    except ValueError:
        yield violation(issued, "is not a date (YYYY-MM-DD)")
        return
    if age < -1:
        # One day is allowed because clocks and time zones differ.
        yield violation(issued, "is in the future")
    elif age > parameters["days"]:
        yield violation(issued, f"is more than {parameters['days']:g} days ago")


@resource_rule(KEYS)
def key_limit_valid_versions(secret: Resource, parameters: Parameters) -> Violations:
    for field, count in versions_in(secret):
        if count > parameters["versions"]:
            yield violation(field, f"has more than {parameters['versions']:g} versions of a key")


@resource_rule(KEYS)
def key_require_entropy(secret: Resource, parameters: Parameters) -> Violations:
    for field, text in key_entries(secret):
        if entropy_bits(text) < parameters["bits"]:
            yield violation(field, f"has less than {parameters['bits']:g} bits of entropy")


@resource_rule(CONTAINERS)
def model_require_server_key(container: Container, _: Parameters) -> Violations:
    if (
        container.init
        or container.ephemeral
        or not _listens(container)
        or not (engine := started_engine(container))
    ):
        return
    row, environment = row_of(engine), container.environment
    problem = "switches the server's key off, so anyone who can reach the port can use the model"
    yield from (violation(each, problem) for each in switches_off(container, engine))
    names = row.get("variables", ())
    if not (names or "options" in row) or any(map(container.option, row.get("options", ()))):
        # A server that takes no key depends on the gateway and on network policies, which other
        # rules require.
        return
    entry = next((environment[name] for name in names if name in environment), None)
    if names and any(re.match(rf"({'|'.join(names)})=.", each) for each in container.words):
        # A script sets the variable.
        return
    if entry is None:
        yield violation(
            container.at("env"),
            f"has no {' or '.join(names or row['options'])}, so anyone who can reach the port can"
            " use the model",
        )
        return
    reference = entry.at("valueFrom", "secretKeyRef")
    if reference.absent and not entry.at("value").text():
        yield violation(
            entry.at("value"), "is empty, so anyone who can reach the port can use the model"
        )
    if reference.at("optional").flag():
        yield violation(reference.at("optional"), "lets the server start without its key")


def _listens(container: Container) -> bool:
    """True if clients can reach a container. Ports are only hints, but an engine's group of pods
    has followers that declare none.
    """
    return container.at("ports").has_items or container.pod.resource.kind in WORKLOADS


@stack_rule
def stack_require_client_keys(stack: Stack, parameters: Parameters) -> Violations:
    for policy in stack.of(SECURITY_POLICY):
        with stack.unreadable:
            names = {
                each.at("name").text()
                for each in policy.at("spec", "apiKeyAuth", "credentialRefs").each()
            }
            for secret in stack.candidates(["kubernetes:core:Secret"], object_names, *names):
                with stack.unreadable:
                    if secret.object_name in names and secret.namespace == policy.namespace:
                        yield from _weak_keys(stack, secret, parameters["bits"])


def _weak_keys(stack: Stack, secret: Resource, bits: float) -> Violations:
    for _name, field, read in _entries(secret):
        with stack.unreadable:
            key = read(field)
            if key.startswith("Bearer "):
                yield violation(field, "starts with Bearer, which is not part of a key")
            elif entropy_bits(key) < bits:
                yield violation(field, f"has less than {bits:g} bits of entropy")
