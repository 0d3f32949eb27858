"""Container images by their parts. It asks no registry: what an image is called is all that it knows."""

from __future__ import annotations

from typing import NamedTuple

from policies.engine.fields import Field


class Image(NamedTuple):
    """`name` with its registry (docker.io where none is written), `tag` and `digest` as written or ""."""

    name: str
    tag: str
    digest: str

    @property
    def base(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]


def image_of(field: Field) -> Image:
    """The image that a field names. Raises FieldError."""
    rest, _, digest = field.text().partition("@")
    head, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    name = f"{head}{slash}{last}"
    first = name.partition("/")[0]
    if "/" not in name:
        name = f"docker.io/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost":
        name = f"docker.io/{name}"
    return Image(name, tag, digest)


def at_least(version: str, floor: str) -> bool:
    """True if a dotted version is `floor` or newer; other text is not."""
    try:
        return tuple(map(int, version.split("."))) >= tuple(map(int, floor.split(".")))
    except ValueError:
        return False
