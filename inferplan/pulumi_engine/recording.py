"""The resources that a program registered, as plain data without secrets, and the URNs that
Pulumi's engine gives to them.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDER_PREFIX = "pulumi:providers:"


def make_urn(*, stack: str, project: str, parent: str, type_: str, name: str) -> str:
    """The URN of the resource `name` of `type_`; `parent` is a URN or ""."""
    chain = qualified_type(parent) if parent else ""
    if chain and chain != STACK_TYPE:
        type_ = f"{chain}${type_}"
    return f"urn:pulumi:{stack}::{project}::{type_}::{name}"


def stack_urn(stack: str, project: str) -> str:
    return make_urn(
        stack=stack, project=project, parent="", type_=STACK_TYPE, name=f"{project}-{stack}"
    )


def qualified_type(urn: str) -> str:
    """The type part of `urn` with the chain of parent types, parts joined by `$`."""
    return urn.split("::", 3)[2]


def name_of(urn: str) -> str:
    return urn.split("::", 3)[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Custom timeouts as Go durations (`20m`), None for the provider's default."""

    create: str | None = None
    update: str | None = None
    delete: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The resource options that an engine acts on. `aliases` are resolved to full URNs."""

    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    custom_timeouts: Timeouts = field(default_factory=Timeouts)
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource, with what a plan saves of it; `provider` is a URN, and `read` is true for one
    that was looked up by `id`.
    """

    urn: str
    type: str
    custom: bool
    inputs: dict[str, Any]
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    provider: str = ""
    read: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration(Resource):
    """One resource as the program registered it; `inputs` is plain data with `Secret` and `UNKNOWN`
    marks.
    """

    name: str
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One message of the program. `severity` is `debug`, `info`, `warning` or `error`; `urn` may be
    "".
    """

    severity: str
    message: str
    urn: str = ""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Everything that one run registered, in the order of `ordered`, without the root stack;
    `config` shows secrets as `[secret]`.
    """

    project: str
    stack: str
    registrations: tuple[Registration, ...]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    component_outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def stack_urn(self) -> str:
        return stack_urn(self.stack, self.project)

    def __iter__(self) -> Iterator[Registration]:
        return iter(self.registrations)

    def __len__(self) -> int:
        return len(self.registrations)

    def of_type(self, type_: str) -> list[Registration]:
        return [each for each in self.registrations if each.type == type_]

    def one(self, type_: str, name: str | None = None) -> Registration:
        """The only resource of `type_` (and of `name`). Raises LookupError with the registered
        resources.
        """
        matches = [each for each in self.of_type(type_) if name is None or each.name == name]
        if len(matches) == 1:
            return matches[0]
        query = f"{type_} {name!r}" if name else type_
        registered = (
            ", ".join(sorted(f"{each.type} {each.name!r}" for each in self.registrations))
            or "nothing"
        )
        raise LookupError(
            f"{len(matches)} resources match {query}; expected one. Registered: {registered}"
        )

    def children(self, parent: str | Registration) -> list[Registration]:
        urn = parent if isinstance(parent, str) else parent.urn
        return [each for each in self.registrations if each.parent == urn]


def ordered(registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    """Registrations with dependencies and parents first, ties by URN: the order of arrival depends
    on the hash seed.
    """
    by_urn = {each.urn: each for each in registrations}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for each in registrations:
        sorter.add(
            each.urn,
            *(
                urn
                for urn in (each.parent, each.provider, *each.dependencies)
                if urn in by_urn and urn != each.urn
            ),
        )
    sorter.prepare()
    ready: list[str] = []
    result: list[Registration] = []
    while sorter.is_active():
        for urn in sorter.get_ready():
            heapq.heappush(ready, urn)
        first = heapq.heappop(ready)
        result.append(by_urn[first])
        sorter.done(first)
    return tuple(result)
