"""`inferplan images STACK`: every image that the stack's pods pull, for example to copy them into a mirror."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer


def command(
    stack: Annotated[str, typer.Argument(metavar="STACK", help="The name of a stack, or the path of a YAML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print image, source and usedBy of each image as JSON.")] = False,
) -> None:
    """List every image that a stack needs, one per line; with a mirror, the upstream name and the name in the mirror."""
    from operations.images import needed_images
    from operations.workspace import open_workspace

    images = needed_images(open_workspace(stack))
    if as_json:
        rows = [{"image": each.image, "source": each.source, "usedBy": list(asdict(each)["used_by"])} for each in images]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    for each in images:
        print(each.image if each.image == each.source else f"{each.source} {each.image}")
