"""Resources of the policy SDK as plain data with `UNKNOWN` marks, without the SDK's error for
unknown values.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inferplan.policies.engine.fields import UNKNOWN
from inferplan.policies.engine.resource import Resource

_STACK_OF = re.compile(r"urn:pulumi:([^:]+)::")
# The output of the Kubernetes provider with an object's inputs.
_INPUTS = "__inputs"
# The SDK's marks for unknowns of each type (pulumi_policy/proxy.py).
_UNKNOWNS = frozenset(
    [
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    ]
)


def plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    """`properties` of the SDK as plain data. Secrets are in plain text, as for every analyzer."""
    return {key: _item(properties, key) for key in properties}


def _item(container: Any, key: str | int) -> Any:
    from pulumi_policy.proxy import UnknownValueError

    try:
        return _plain(container[key])
    except UnknownValueError:
        return UNKNOWN


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return UNKNOWN if value in _UNKNOWNS else value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return plain(value)
    return (
        [_item(value, place) for place in range(len(value))]
        if isinstance(value, Sequence)
        else value
    )


def inputs_in_outputs(resource: Any) -> Mapping[str, Any]:
    """The inputs that the Kubernetes provider stores in outputs, next to a server's values; the
    outputs for other providers.
    """
    outputs = plain(resource.props)
    inputs = outputs.get(_INPUTS) if resource.resource_type.startswith("kubernetes:") else None
    return inputs if isinstance(inputs, dict) else outputs


def resource_of(resource: Any, inputs: Mapping[str, Any]) -> Resource:
    options, provider = resource.opts, resource.provider
    sources = getattr(resource, "property_dependencies", {})
    return Resource(
        type=resource.resource_type,
        urn=resource.urn,
        name=resource.name,
        inputs=inputs,
        parent=options.parent or "",
        dependencies=tuple(each.urn for each in getattr(resource, "dependencies", ())),
        property_dependencies={
            name: tuple(each.urn for each in listed) for name, listed in sources.items()
        },
        provider=provider.urn if provider is not None else "",
        # The engine gives every resource a provider, except components and providers.
        custom=provider is not None,
        protect=options.protect,
        ignore_changes=tuple(options.ignore_changes),
    )


def stack_name(urn: str) -> str:
    match = _STACK_OF.match(urn)
    return match.group(1) if match else ""
