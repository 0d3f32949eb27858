"""`inferplan preheat MODEL --stack STACK`: preview what a preheat would move, link and remove. It
moves nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import StackOption, json_option
from inferplan.commands.preheat.preview import (
    PlannedPreheat,
    list_in_environment,
    planned,
    problems_of_files,
)
from inferplan.commands.screen import show, show_json
from inferplan.components.preheat.payload.certificates import UntrustedError
from inferplan.components.preheat.payload.errors import PreheatError
from inferplan.components.preheat.payload.progress import size as size_text
from inferplan.components.preheat.payload.request import Request
from inferplan.components.preheat.payload.source import SourceFile
from inferplan.components.preheat.preview import Listing, SharePreview, mounted, preview_share
from inferplan.errors import RequestError
from inferplan.kube.quantity import bytes_of
from inferplan.workspace.workspace import Workspace, open_workspace

_SHOWN = 12
_HEADROOM = 1 << 20  # the Job stops if less than this would stay free


def command(
    model: Annotated[str, typer.Argument(help="A model of the stack that has preheat.")],
    stack: StackOption,
    number: Annotated[
        int | None,
        typer.Option("--round", min=0, max=9999, help="Preview this value of preheat.round."),
    ] = None,
    share: Annotated[
        Path | None,
        typer.Option(help="Mount point of the share on this machine, to see its contents."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="Mount point on this machine of a source that is a share or a claim."),
    ] = None,
    ca_bundle: Annotated[
        Path | None,
        typer.Option(
            envvar="INFERPLAN_CA_BUNDLE",
            exists=True,
            dir_okay=False,
            help="A file with certificates of CAs to trust in addition to the public ones, like the store's caBundle.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        json_option(
            "Print complete, problems, and name, round, share and lines of each preheat as JSON."
        ),
    ] = False,
) -> None:
    """Show which files a preheat of MODEL would move, which exist and which rounds it would remove;
    exit code 3 if that is unknown.
    """
    workspace = open_workspace(stack)
    complete, preheats = True, []
    for each in planned(workspace, model, number):
        lines, is_complete = _preview(workspace, each, share, source, ca_bundle)
        complete &= is_complete
        preheats.append(
            {
                "name": each.name,
                "round": each.round,
                "share": each.share,
                "lines": [line.strip() for line in lines],
            }
        )
        for line in () if as_json else lines:
            show(line)
    problems = problems_of_files(workspace, model, source)
    for problem in () if as_json else problems:
        show(f"  problem    {problem}")
    if as_json:
        show_json(
            {"complete": complete, "problems": list(map(str, problems)), "preheats": preheats}
        )
    if not complete or problems:
        raise typer.Exit(3)


def _preview(
    workspace: Workspace,
    preheat: PlannedPreheat,
    share: Path | None,
    mount: Path | None,
    ca: Path | None,
) -> tuple[list[str], bool]:
    """The lines about one preheat, and True if they are complete."""
    request = mounted(preheat.request, share=share or preheat.request.target, source=mount)
    lines = [
        f"{preheat.name}, round {preheat.round}, from {preheat.origin} into {preheat.share}",
        f"  directory  {request.directory}",
    ]
    capacity = getattr(workspace.settings.storage[preheat.store], "capacity", None)
    end = (
        [f"  capacity   {capacity} on {preheat.store}, as the stack file says"] if capacity else []
    )
    if request.kind == "local" and mount is None:
        unlisted = "it is a volume that only the Job mounts; give its mount point on this machine with --source DIR"
        return [*lines, f"  source     not listed: {unlisted}", *end], False
    try:
        listing = list_in_environment(request, preheat.environment, ca)
    except UntrustedError as error:
        return [*lines, f"  source     not listed: {preheat.explained(error, ca)}", *end], False
    except PreheatError as error:
        return [
            *lines,
            f"  source     not listed: {error}{preheat.missing_credentials}",
            *end,
        ], False
    lines.append(f"  source     {_listed(listing)}")
    if listing.refusal is not None:
        return [*lines, f"  rejected   {listing.refusal}"], False
    if share is None:
        unknown = "  there      unknown: give the mount point of the share on this machine with --share DIR"
        lines += [f"  moves      at most {_files(listing.files)}", unknown]
    else:
        lines += _share_lines(request, listing)
    return [*lines, *_size_note(preheat, listing), *end], True


def _listed(listing: Listing) -> str:
    proof = {"sha256": 0, "git-sha1": 0, "md5": 0, "ETag or second reading": 0}
    for file in listing.files:
        proof[
            "sha256"
            if file.sha256
            else "git-sha1"
            if file.git_sha1
            else "md5"
            if file.md5
            else "ETag or second reading"
        ] += 1
    checks = ", ".join(f"{count} by {kind}" for kind, count in proof.items() if count)
    left = f"; {listing.left_out} left out by include and exclude" if listing.left_out else ""
    return f"{_files(listing.files)}, compared {checks}{left}"


def _size_note(preheat: PlannedPreheat, listing: Listing) -> list[str]:
    if preheat.stated_size is None or listing.bytes <= bytes_of(preheat.stated_size):
        return []
    actual = size_text(listing.bytes)
    return [
        (
            f"  note       weights.size is {preheat.stated_size}, but the source has {actual}."
            " Raise it: time estimates and size checks depend on it"
        )
    ]


def _share_lines(request: Request, listing: Listing) -> Iterator[str]:
    try:
        preview = preview_share(request, listing.files)
    except OSError as error:
        raise RequestError(
            f"--share {request.target} cannot be read: {error.strerror or error}. Give the mount point of the share"
        ) from error
    if preview.ready:
        yield f"  there      {request.final.name} is READY, and sizes and times are as published: servers may read it now"
        yield "  moves      nothing"
    else:
        yield (
            f"  there      rounds {', '.join(preview.rounds)}"
            if preview.rounds
            else "  there      no round of this content"
        )
        yield from (f"  damaged    {each}" for each in preview.damage)
        yield from _moves(listing, preview)
    yield from [
        f"  removes    {name} (keep: {request.keep})" for name in preview.removed or ("nothing",)
    ]


def _moves(listing: Listing, preview: SharePreview) -> Iterator[str]:
    by_action: dict[str, list[SourceFile]] = {"moved": [], "linked": [], "staged": []}
    for file in listing.files:
        by_action[preview.actions[file.path]].append(file)
    yield f"  moves      {_files(by_action['moved'])}"
    yield from _largest(by_action["moved"])
    if by_action["linked"]:
        yield f"  links      {_files(by_action['linked'])}, the same in an earlier round"
    if by_action["staged"]:
        yield f"  verifies   {_files(by_action['staged'])}, staged by an earlier run"
    moved = sum(file.size for file in by_action["moved"])
    if moved + _HEADROOM > preview.free_bytes:
        yield f"  too full   {size_text(preview.free_bytes)} are free: remove old models, lower preheat.keep, or use a larger share"
    else:
        yield f"  free       {size_text(preview.free_bytes)}, {size_text(preview.free_bytes - moved)} afterwards"


def _largest(files: Iterable[SourceFile]) -> Iterator[str]:
    ordered = sorted(files, key=lambda file: (-file.size, file.path))
    yield from (
        f"               {size_text(file.size):>10}  {file.path}" for file in ordered[:_SHOWN]
    )
    if len(ordered) > _SHOWN:
        yield f"               and {len(ordered) - _SHOWN} smaller ones"


def _files(files: Sequence[SourceFile]) -> str:
    return f"{len(files)} {'file' if len(files) == 1 else 'files'}, {size_text(sum(file.size for file in files))}"
