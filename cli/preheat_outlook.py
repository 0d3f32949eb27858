"""Words for what a share holds of a model, and what a preheat would do to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.preheat.payload.request import Request
    from components.preheat.payload.source import SourceFile
    from components.preheat.preview import Listing, SharePreview

_SHOWN = 12
_HEADROOM = 1 << 20  # what the Job itself wants to stay free


def outlook_lines(request: Request, listing: Listing) -> list[str]:
    """The lines about the share of `request`. Raises OperationError where it cannot be read."""
    from components.preheat.preview import preview_share
    from operations.errors import RequestError

    try:
        outlook = preview_share(request, listing.files)
    except OSError as error:
        raise RequestError(f"--share {request.target} cannot be read: {error.strerror or error}; give the share's mount point") from error
    return [*_there(request, outlook), *_moves(listing, outlook), *_removes(request, outlook)]


def files(given: Sequence[SourceFile]) -> str:
    """How many files these are, and how large together."""
    from components.preheat.payload.progress import size

    return f"{len(given)} {'file' if len(given) == 1 else 'files'}, {size(sum(file.size for file in given))}"


def _there(request: Request, outlook: SharePreview) -> list[str]:
    name = request.final.name
    if outlook.ready:
        return [f"  there      {name} is READY, and sizes and times are as published: servers may read it now"]
    lines = [f"  there      rounds {', '.join(outlook.rounds)}" if outlook.rounds else "  there      no round of this content"]
    return [*lines, *(f"  damaged    {finding}" for finding in outlook.damage)]


def _moves(listing: Listing, outlook: SharePreview) -> list[str]:
    from components.preheat.payload.progress import size

    if outlook.ready:
        return ["  moves      nothing"]
    by_action: dict[str, list[SourceFile]] = {"moved": [], "linked": [], "staged": []}
    for file in listing.files:
        by_action[outlook.actions[file.path]].append(file)
    moved = sum(file.size for file in by_action["moved"])
    lines = [f"  moves      {files(by_action['moved'])}", *_largest(by_action["moved"])]
    if by_action["linked"]:
        lines.append(f"  links      {files(by_action['linked'])}, the same in an earlier round")
    if by_action["staged"]:
        lines.append(f"  verifies   {files(by_action['staged'])}, staged by an earlier run")
    if moved + _HEADROOM > outlook.free_bytes:
        lines.append(f"  too full   {size(outlook.free_bytes)} are free: remove old models, lower preheat.keep, or name a larger share")
    else:
        lines.append(f"  free       {size(outlook.free_bytes)}, {size(outlook.free_bytes - moved)} afterwards")
    return lines


def _largest(files: Iterable[SourceFile]) -> list[str]:
    from components.preheat.payload.progress import size

    ordered = sorted(files, key=lambda file: (-file.size, file.path))
    lines = [f"               {size(file.size):>10}  {file.path}" for file in ordered[:_SHOWN]]
    return [*lines, f"               and {len(ordered) - _SHOWN} smaller ones"] if len(ordered) > _SHOWN else lines


def _removes(request: Request, outlook: SharePreview) -> list[str]:
    if not outlook.removed:
        return [f"  removes    nothing (keep: {request.keep})"]
    return [f"  removes    {name} (keep: {request.keep})" for name in outlook.removed]
