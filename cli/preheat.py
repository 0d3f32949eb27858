"""`inferplan preheat MODEL --stack STACK`: previews what a preheat would move, link and remove. It moves nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from components.preheat.preview import Listing
    from operations.preheat_preview import PlannedPreheat
    from operations.workspace import Workspace


def command(
    model: Annotated[str, typer.Argument(help="A model of the stack that has preheat.")],
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of a stack.")],
    number: Annotated[int | None, typer.Option("--round", min=0, max=9999, help="As if preheat.round were this.")] = None,
    share: Annotated[Path | None, typer.Option(help="Where the share is mounted on this machine, to see what is there.")] = None,
    source: Annotated[Path | None, typer.Option(help="Where a source that is a share or a claim is mounted on this machine.")] = None,
    ca_bundle: Annotated[
        Path | None,
        typer.Option(
            envvar="INFERPLAN_CA_BUNDLE",
            exists=True,
            dir_okay=False,
            help="A file with the certificates of CAs, as the store's caBundle holds them, believed beside the public ones.",
        ),
    ] = None,
) -> None:
    """Show which files a preheat of MODEL would move, what is there already and which rounds it would remove; exit code 3 if it cannot tell."""
    from cli.screen import results
    from operations.preheat_preview import planned
    from operations.workspace import open_workspace

    workspace = open_workspace(stack)
    console = results()
    complete = True
    for each in planned(workspace, model, number):
        lines, told = _preview(workspace, each, share, source, ca_bundle)
        complete &= told
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not complete:
        raise typer.Exit(3)


def _preview(
    workspace: Workspace, planned: PlannedPreheat, share: Path | None, mount: Path | None, ca: Path | None
) -> tuple[list[str], bool]:
    """The lines about one preheat, and whether they say all that would happen."""
    from cli.preheat_outlook import files, outlook_lines
    from components.preheat.payload.certificates import UntrustedError
    from components.preheat.payload.errors import PreheatError
    from components.preheat.preview import list_source, mounted
    from operations.preheat_preview import reached

    request = planned.request if share is None else mounted(planned.request, share=share, source=mount)
    request = mounted(request, share=request.target, source=mount)
    lines = [f"{planned.name}, round {planned.round}, from {planned.origin} into {planned.share}", f"  directory  {request.directory}"]
    if request.kind == "local" and mount is None:
        unreachable = "it is a volume that only the Job mounts; give its mount on this machine with --source DIR"
        return [*lines, f"  source     not listed: {unreachable}", *_capacity(workspace, planned)], False
    try:
        with reached(planned, ca):
            listing = list_source(request)
    except UntrustedError as refusal:
        return [*lines, f"  source     not listed: {planned.told(refusal, ca)}", *_capacity(workspace, planned)], False
    except PreheatError as failure:
        return [*lines, f"  source     not listed: {failure}{planned.wanted_credentials}", *_capacity(workspace, planned)], False
    lines.append(f"  source     {_count(listing)}")
    if listing.refusal is not None:
        return [*lines, f"  refused    {listing.refusal}"], False
    if share is None:
        lines += [
            f"  moves      at most {files(listing.files)}",
            "  there      not known: give the share's mount on this machine with --share DIR",
        ]
        return [*lines, *_stated(planned, listing), *_capacity(workspace, planned)], True
    return [*lines, *outlook_lines(request, listing), *_stated(planned, listing), *_capacity(workspace, planned)], True


def _count(listing: Listing) -> str:
    from cli.preheat_outlook import files

    proof = {"sha256": 0, "git-sha1": 0, "md5": 0, "ETag or second reading": 0}
    for file in listing.files:
        proof["sha256" if file.sha256 else "git-sha1" if file.git_sha1 else "md5" if file.md5 else "ETag or second reading"] += 1
    told = ", ".join(f"{count} by {kind}" for kind, count in proof.items() if count)
    left = f"; {listing.left_out} left out by include and exclude" if listing.left_out else ""
    return f"{files(listing.files)}, compared {told}{left}"


def _stated(planned: PlannedPreheat, listing: Listing) -> list[str]:
    """What to correct where the stack file states another size than the source has."""
    from components.preheat.payload.progress import size
    from kube.quantity import bytes_of

    if planned.stated_size is None or listing.bytes <= bytes_of(planned.stated_size):
        return []
    return [
        f"  note       weights.size says {planned.stated_size} and the source holds {size(listing.bytes)}: raise it, times and checks follow it"
    ]


def _capacity(workspace: Workspace, planned: PlannedPreheat) -> list[str]:
    capacity = getattr(workspace.settings.storage[planned.store], "capacity", None)
    return [f"  capacity   {capacity} on {planned.store}, as the stack file says"] if capacity else []
