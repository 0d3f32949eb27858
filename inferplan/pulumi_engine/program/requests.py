"""Registrations from the SDK's requests."""

from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.pulumi_engine.providers.kubernetes import with_name
from inferplan.pulumi_engine.recording import Options, Registration, Timeouts, make_urn, stack_urn
from inferplan.pulumi_engine.values import from_wire

_DEFAULTS = Options()


def declared(
    request: Any, urn: str, *, stack: str, project: str, provider: Mapping[str, Any]
) -> Registration:
    """The registration of a `RegisterResourceRequest`; `provider` is the inputs of its explicit
    provider, or {}.
    """
    return Registration(
        **_common(request, urn, stack, project),
        custom=request.custom,
        inputs=with_name(
            request.type, request.name, urn, from_wire(request.object), provider=provider
        ),
        property_dependencies={
            key: tuple(sorted(deps.urns))
            for key, deps in sorted(request.propertyDependencies.items())
        },
        options=_options(request, stack, project),
    )


def existing(request: Any, urn: str, *, stack: str, project: str) -> Registration:
    """The registration of a `ReadResourceRequest`."""
    inputs = from_wire(request.properties)
    return Registration(
        **_common(request, urn, stack, project),
        custom=True,
        inputs=inputs,
        read=True,
        id=request.id,
    )


def _common(request: Any, urn: str, stack: str, project: str) -> dict[str, Any]:
    return {
        "urn": urn,
        "type": request.type,
        "name": request.name,
        "parent": request.parent or stack_urn(stack, project),
        "dependencies": tuple(sorted(request.dependencies)),
        "provider": request.provider.rpartition("::")[0],
    }


def _options(request: Any, stack: str, project: str) -> Options:
    timeouts = request.customTimeouts
    options = Options(
        protect=request.protect,
        retain_on_delete=request.retainOnDelete,
        delete_before_replace=request.deleteBeforeReplace,
        ignore_changes=tuple(request.ignoreChanges),
        replace_on_changes=tuple(request.replaceOnChanges),
        aliases=tuple(dict.fromkeys(_aliases(request, stack, project))),
        custom_timeouts=Timeouts(
            create=timeouts.create or None,
            update=timeouts.update or None,
            delete=timeouts.delete or None,
        ),
        version=request.version,
    )
    return _DEFAULTS if options == _DEFAULTS else options


def _aliases(request: Any, stack: str, project: str) -> Iterator[str]:
    for alias in request.aliases:
        if alias.WhichOneof("alias") == "urn":
            yield alias.urn
            continue
        spec = alias.spec
        yield make_urn(
            stack=spec.stack or stack,
            project=spec.project or project,
            parent="" if spec.noParent else (spec.parentUrn or request.parent),
            type_=spec.type or request.type,
            name=spec.name or request.name,
        )
