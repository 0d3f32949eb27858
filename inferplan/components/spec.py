"""The base class of all specs (what a user wrote, without Output or secret), and the field types
that they share.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

from inferplan.kube.facts import Facts
from inferplan.kube.quantity import CPU_PATTERN, SIZE_PATTERN, bytes_of, millicores_of

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

Comparable = TypeVar("Comparable", str, int)
AnyFacts = TypeVar("AnyFacts", bound=Facts)


def renamed(key: str, old: str) -> Any:
    """A field whose key in YAML was `old` before; both work, and components keep the old key in
    their inputs.
    """
    return Field(validation_alias=AliasChoices(key, old), serialization_alias=old)


class Spec(BaseModel):
    """Base class of specs: frozen, without unknown fields, camelCase in YAML."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        alias_generator=to_camel,
        populate_by_name=False,
        # Built once as part of the whole stack, not again for each of the seventy parts.
        defer_build=True,
    )

    stated: ClassVar[Mapping[str, Any]] = {}
    """Fields that other facts or the resources themselves show, so that `facts_as` leaves them out
    of `settings`; as pydantic's `exclude`.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema, with the docstring of each field as its description.

        Pydantic's `use_attribute_docstrings` reads the source of every module at import, 0.13 s of
        each start (2026-11), for texts that only editors and errors show.
        """
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        descriptions = _field_docstrings(cls)
        for name, field in cls.model_fields.items():
            if name in descriptions and field.description is None:
                properties[field.alias or name]["description"] = descriptions[name]
        if "description" in schema:
            schema["description"] = unwrap(schema["description"])
        return schema

    def intent(self) -> dict[str, Any]:
        """Return the spec as the user wrote it, without defaults; a preview shows changes of it."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def facts_as(self, kind: type[AnyFacts], **answers: Any) -> AnyFacts:
        """Return the facts of `kind`: `answers`, the fields that have the name of a fact, and all
        others that are set as `settings`.
        """
        names = {each.name for each in fields(kind)} & type(
            self
        ).model_fields.keys() - answers.keys()
        whole = self.model_dump(mode="json", by_alias=True, include=names)
        own = {name: whole[type(self).model_fields[name].alias or name] for name in names}
        covered = {**dict.fromkeys((*names, *answers), True), **self.stated}
        settings = self.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude=covered
        )
        return kind(**own, **answers, settings=settings)


def unwrap(text: str) -> str:
    """Return a docstring with each paragraph on one line, for readers that wrap lines themselves."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


@cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """Return the classes of a module by name; none if it has no source, as in a program packed into
    one file.
    """
    with suppress(OSError, TypeError):
        return {
            node.name: node
            for node in ast.parse(inspect.getsource(sys.modules[module])).body
            if isinstance(node, ast.ClassDef)
        }
    return {}


def _field_docstrings(spec: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the fields of `spec` and its base classes, by field."""
    docstrings: dict[str, str] = {}
    for each in reversed(spec.__mro__[: spec.__mro__.index(BaseModel)]):
        written = _classes(each.__module__).get(each.__name__)
        for field, text in pairwise(written.body if written else ()):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
            ):
                docstrings[field.target.id] = unwrap(inspect.cleandoc(ast.literal_eval(text.value)))
    return docstrings


def checked(check: Callable[[Any], Iterator[str]]) -> AfterValidator:
    """Make a validator of one value of `check`, which yields what is wrong with it. The first
    problem counts.
    """

    def validate(value: Any) -> Any:
        for problem in check(value):
            raise ValueError(problem)
        return value

    return AfterValidator(validate)


def _positive_size(quantity: str) -> Iterator[str]:
    if bytes_of(quantity) == 0:
        yield f"{quantity!r} is not a valid size. Use more than zero."


def _positive_cpu(quantity: str) -> Iterator[str]:
    if millicores_of(quantity) == 0:
        yield f"{quantity!r} is not a valid CPU quantity. Use more than zero."


_TAGGED = re.compile(
    r"^(?P<name>[a-z0-9](?:[a-z0-9._:/-]*[a-z0-9])?)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?$"
)
_LONGEST_NAME = 253
_MOVING_TAGS = ("latest", "stable", "nightly", "main", "master", "edge", "dev")


def cidr(text: str, example: str) -> IPv4Network | IPv6Network:
    """Return the network that `text` is. Raises ValueError, also for an address without a prefix
    length, which would be a network of one.
    """
    try:
        block = ip_network(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a network ({error}). Use CIDR notation, for example {example}"
        ) from None
    if "/" not in text:
        single = f"{text}/{block.max_prefixlen}"
        wider = (
            f"{text}/24 for its 256 addresses, or {single} for this one"
            if text.endswith(".0")
            else f"{single} for this address"
        )
        raise ValueError(f"{text!r} has no prefix length. Write {wider}")
    return block


def _network(text: str) -> str:
    return str(cidr(text, "198.51.100.0/24"))


Network = Annotated[
    str,
    AfterValidator(_network),
    Field(description="A network in CIDR notation, for example 198.51.100.0/24."),
]


def _pinned_image(image: str) -> Iterator[str]:
    if "://" in image:
        yield f"{image!r} has a scheme. Use registry/name:tag."
    reference = image.partition("@")[0]
    tag = reference.rpartition("/")[2].partition(":")[2]
    if _TAGGED.match(image) is None:
        yield f"{image!r} is not an image reference. Use name:tag or name@sha256:<64 hex digits>."
    if "@sha256:" in image:
        return
    if not tag:
        yield (
            f"{image!r} has no tag, so it can change. Use a fixed tag (name:v1.2.3) or a digest"
            " (name@sha256:...)."
        )
    # vault.habana.ai publishes each build under its own path with the tag `latest`.
    if tag in _MOVING_TAGS and not reference.startswith("vault.habana.ai/gaudi-docker/"):
        yield (
            f"{image!r} has the moving tag {tag!r}. Use a fixed tag (name:v1.2.3) or a digest"
            " (name@sha256:...)."
        )


def _short_prefix(key: str) -> Iterator[str]:
    if len(key.rpartition("/")[0]) > _LONGEST_NAME:
        yield f"The prefix of a label key has at most {_LONGEST_NAME} characters. Shorten it."


Bytes = Annotated[
    str,
    StringConstraints(pattern=SIZE_PATTERN),
    checked(_positive_size),
]
Cpu = Annotated[
    str,
    StringConstraints(pattern=CPU_PATTERN),
    checked(_positive_cpu),
]
PinnedImage = Annotated[
    str,
    checked(_pinned_image),
]
DnsName = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253
    ),
]
DnsLabel = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63),
]
# A description on a type hides the docstring of every field of that type, so only types of map keys
# have one.
Name = Annotated[
    DnsLabel,
    Field(
        description=(
            "A Kubernetes name: at most 63 lower-case letters, digits and hyphens, starting with a"
            " letter."
        )
    ),
]
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
    ),
    checked(_short_prefix),
    Field(
        description=(
            "A label key: a name of at most 63 characters, with an optional DNS prefix and a slash."
        )
    ),
]
LabelValue = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
]
Labels = dict[LabelKey, LabelValue]


def duplicates(values: Iterable[Comparable]) -> list[Comparable]:
    """Return the values that occur more than once, each once, sorted."""
    return sorted(value for value, count in Counter(values).items() if count > 1)


def _once(names: list[str]) -> Iterator[str]:
    if repeated := duplicates(names):
        yield f"{', '.join(repeated)} is listed more than once. List each name once."


LISTED_ONCE = checked(_once)
"""Rejects a list that names something twice."""


class FieldError(ValueError):
    """The error of a validator of a whole spec, at the field that the user has to change; `path`
    starts below the spec.
    """

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = path


def rule(check: Callable[[Any], Iterator[FieldError | str]]) -> Any:
    """Make a validator of a whole spec of `check`, which yields what is wrong, with a path if it is
    one field. The first problem counts.
    """

    def validate(spec: Any) -> Any:
        for problem in check(spec):
            raise problem if isinstance(problem, FieldError) else ValueError(problem)
        return spec

    return model_validator(mode="after")(validate)
