"""The image catalogue (`catalogue.toml`, read on first use): what is known about the images that
stacks run, with sources.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from inferplan.images.mirror import names_of
from inferplan.tables import table


class WrittenPath(NamedTuple):
    """A directory that an image's programs write to. `env` is the variable that moves it, None
    where nothing does.
    """

    path: str
    env: str | None = None


class ImageFacts(NamedTuple):
    """One row of the catalogue.

    `entrypoint`, `workdir` and `user` are the image's own defaults. `programs` are the programs
    that containers may call by name. `backends` are the backends of a Triton image, empty where
    they are not known.
    `architectures` are those that the publisher's own build files name.
    `driver` is the least version of the accelerator's driver, "" for images without one, and
    `driver_source` who states it. `keeps_entrypoint` is true where the publisher names no program
    to call, so that a container has to rely on the entrypoint.
    """

    name: str
    image: str
    family: str
    entrypoint: tuple[str, ...]
    workdir: str
    user: str
    programs: tuple[str, ...]
    writes: tuple[WrittenPath, ...]
    access: str
    source: str
    read: str
    digest: str | None = None
    keeps_entrypoint: bool = False
    backends: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ("x86_64",)
    driver: str = ""
    driver_source: str = ""

    @property
    def reference(self) -> str:
        """The image as a container names it, pinned by digest where one is published."""
        return self.image if self.digest is None else f"{self.image}@{self.digest}"


def default_image(name: str) -> str:
    """The image of row `name`, as a container names it. Raises KeyError for an unknown row."""
    return catalogue()[name].reference


def facts_of(image: str) -> ImageFacts | None:
    """The row of exactly this image, also below a mirror and with any digest; None for every other
    one.
    """
    tagged = names_of(_without_digest(image))
    return next((row for row in catalogue().values() if row.image in tagged), None)


def family_of(image: str) -> ImageFacts | None:
    """The row that describes how `image` is built: its own, or that of another release of the same
    image. None where nothing is known.
    """
    names = names_of(_without_digest(image))
    families = (
        row
        for row in catalogue().values()
        if any(re.fullmatch(rf"(?:{row.family})(?::.*)?", name) for name in names)
    )
    return facts_of(image) or next(families, None)


def backends_of(image: str) -> tuple[str, ...]:
    facts = family_of(image)
    return () if facts is None else facts.backends


@cache
def catalogue() -> Mapping[str, ImageFacts]:
    return {name: _row(name, data) for name, data in table("images/catalogue.toml").items()}


def _row(name: str, data: dict[str, Any]) -> ImageFacts:
    lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    facts: dict[str, Any] = {
        "entrypoint": (),
        **data,
        **lists,
        "writes": tuple(WrittenPath(**path) for path in data["writes"]),
    }
    renamed = {
        "keeps_entrypoint": facts.pop("keepsEntrypoint", False),
        "driver_source": facts.pop("driverSource", ""),
    }
    return ImageFacts(name=name, **renamed, **facts)


def _without_digest(image: str) -> str:
    return image.partition("@")[0]
