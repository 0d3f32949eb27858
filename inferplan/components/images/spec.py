"""The sources of images: a mirror of the registries, and the Secrets that open private ones."""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StringConstraints

from inferplan.components.spec import DnsName, Spec, checked

_REGISTRY = re.compile(
    r"(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
)


def registry(mirror: str, example: str = "registry.acme.example") -> Iterator[str]:
    if "://" in mirror:
        yield (
            f"{mirror!r} is not a registry: it has a scheme. Use host[:port][/path]:"
            f" {mirror.partition('://')[2].rstrip('/')}"
        )
    if not _REGISTRY.fullmatch(mirror):
        yield (
            f"{mirror!r} is not a registry. Use host[:port][/path] in lower case, for example"
            f" {example}"
        )


class PullSecret(Spec):
    """A Secret of type kubernetes.io/dockerconfigjson in the stack's namespace."""

    name: DnsName
    """The name of an existing Secret. Its values are never part of a stack file."""


PullSecrets = Annotated[list[PullSecret], Field(max_length=16)]


class ImagesSpec(Spec):
    """The source of the images of all pods of the stack."""

    mirror: (
        Annotated[str, StringConstraints(min_length=1, max_length=200), checked(registry)] | None
    ) = None
    """A registry that has copies of all images, each below its whole name:
    registry.acme.example/docker.io/vllm/vllm-openai:v0.33.0. Default: every image comes from its
    own registry.
    """
    image_pull_secrets: PullSecrets = []
    """Secrets that open private registries, for every pod of the stack."""
