"""URNs spelled exactly as Pulumi's engine spells them (pulumi/pulumi, sdk/go/common/resource/urn, read 2026-11).

The chain of parent types leaves the root stack out; the name may hold anything, also `::`.
"""

from __future__ import annotations

STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDER_PREFIX = "pulumi:providers:"


def make_urn(*, stack: str, project: str, parent: str, type_: str, name: str) -> str:
    """The URN of a resource of `type_` called `name` under the resource whose URN is `parent` ("" for none)."""
    chain = qualified_type(parent) if parent else ""
    if chain and chain != STACK_TYPE:
        type_ = f"{chain}${type_}"
    return f"urn:pulumi:{stack}::{project}::{type_}::{name}"


def stack_urn(stack: str, project: str) -> str:
    """The URN of the root stack resource."""
    return make_urn(stack=stack, project=project, parent="", type_=STACK_TYPE, name=f"{project}-{stack}")


def qualified_type(urn: str) -> str:
    """The type part of `urn` with the chain of parent types, parts joined by `$`."""
    return urn.split("::", 3)[2]


def name_of(urn: str) -> str:
    """The name that the program gave the resource."""
    return urn.split("::", 3)[3]
