"""Resource options as they come over the wire, made plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rehearsal.engine.wire.recording import Options, Timeouts
from rehearsal.engine.wire.urns import make_urn

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTHING = Options()


def decode(request: Any, *, stack: str, project: str) -> Options:
    """The options of a `RegisterResourceRequest`."""
    given = request.customTimeouts
    timeouts = Timeouts(create=given.create or None, update=given.update or None, delete=given.delete or None)
    options = Options(
        protect=request.protect,
        retain_on_delete=request.retainOnDelete,
        delete_before_replace=request.deleteBeforeReplace,
        ignore_changes=tuple(request.ignoreChanges),
        replace_on_changes=tuple(request.replaceOnChanges),
        additional_secret_outputs=tuple(request.additionalSecretOutputs),
        aliases=tuple(dict.fromkeys(_aliases(request, stack, project))),
        custom_timeouts=timeouts,
        deleted_with=request.deletedWith,
        replace_with=tuple(request.replace_with),
        import_id=request.importId,
        version=request.version,
    )
    return _NOTHING if options == _NOTHING else options


def _aliases(request: Any, stack: str, project: str) -> Iterator[str]:
    for alias in request.aliases:
        if alias.WhichOneof("alias") == "urn":
            yield alias.urn
            continue
        spec = alias.spec
        parent = "" if spec.noParent else (spec.parentUrn or request.parent)
        yield make_urn(
            stack=spec.stack or stack,
            project=spec.project or project,
            parent=parent,
            type_=spec.type or request.type,
            name=spec.name or request.name,
        )
