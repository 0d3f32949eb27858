"""What a program registered: the plain record that plans, tests and policies read.

It holds no live Pulumi object and never prints a secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rehearsal.engine.wire.urns import stack_urn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Custom timeouts as the program wrote them (Go durations such as `20m`), None where it said nothing."""

    create: str | None = None
    update: str | None = None
    delete: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The resource options that change what an engine does."""

    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    additional_secret_outputs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Earlier URNs of this resource, resolved against its parent where the program gave only a part."""
    custom_timeouts: Timeouts = field(default_factory=Timeouts)
    deleted_with: str = ""
    replace_with: tuple[str, ...] = ()
    import_id: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One resource as the program registered it.

    `inputs` is plain data with `Secret` and `UNKNOWN` marks. `provider` is the explicit provider's URN, "" for the
    default one. `read` is true for a resource that was looked up rather than declared. `id` and `outputs` are what the
    program got back; in a preview that is the known inputs and no id.
    """

    urn: str
    type: str
    name: str
    custom: bool
    parent: str
    inputs: dict[str, Any]
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    provider: str = ""
    options: Options = field(default_factory=Options)
    read: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One message of the program. `severity` is `debug`, `info`, `warning` or `error`; `urn` may be ""."""

    severity: str
    message: str
    urn: str = ""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Everything one run of a program registered, dependencies first, otherwise by URN: the same in every run.

    The root stack resource is not among `registrations`; its outputs are `outputs`. `component_outputs` holds what
    components registered as theirs, by URN.
    """

    project: str
    stack: str
    registrations: tuple[Registration, ...]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    component_outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    """The configuration that the program was given, secrets as `[secret]`."""

    @property
    def stack_urn(self) -> str:
        """The URN of the root stack resource."""
        return stack_urn(self.stack, self.project)

    def __iter__(self) -> Iterator[Registration]:
        return iter(self.registrations)

    def __len__(self) -> int:
        return len(self.registrations)

    def of_type(self, type_: str) -> list[Registration]:
        """Every resource of the type token `type_`, such as `kubernetes:apps/v1:Deployment`."""
        return [each for each in self.registrations if each.type == type_]

    def one(self, type_: str, name: str | None = None) -> Registration:
        """The only resource of `type_` (and called `name`, if given).

        Raises LookupError that lists what is there when there is none, or more than one.
        """
        found = [each for each in self.of_type(type_) if name is None or each.name == name]
        if len(found) == 1:
            return found[0]
        wanted = f"{type_} {name!r}" if name else type_
        there = ", ".join(sorted(f"{each.type} {each.name!r}" for each in self.registrations)) or "nothing"
        raise LookupError(f"{len(found)} resources match {wanted}, exactly one is wanted; registered are: {there}")

    def by_urn(self, urn: str) -> Registration:
        """The resource whose URN is `urn`; raises KeyError."""
        for each in self.registrations:
            if each.urn == urn:
                return each
        raise KeyError(urn)

    def children(self, parent: str | Registration) -> list[Registration]:
        """The resources directly under `parent`, a registration or a URN."""
        urn = parent if isinstance(parent, str) else parent.urn
        return [each for each in self.registrations if each.parent == urn]
