"""`inferplan images STACK`: every image that the stack's pods pull, for example to copy them into a
mirror.
"""

from typing import Annotated

import typer

from inferplan.commands.arguments import json_option
from inferplan.commands.images.images import images_of
from inferplan.commands.screen import show_json
from inferplan.workspace.workspace import open_workspace


def command(
    stack: Annotated[str, typer.Argument(help="The name of a stack, or the path of a YAML file.")],
    as_json: Annotated[
        bool, json_option("Print image, source and usedBy of each image as JSON.")
    ] = False,
) -> None:
    """List every image that a stack needs, one per line; with a mirror, the upstream name and the
    name in the mirror.
    """
    workspace = open_workspace(stack)
    images = images_of(workspace.record(), workspace.settings.images.mirror)
    if as_json:
        show_json(
            [
                {"image": each.image, "source": each.source, "usedBy": list(each.used_by)}
                for each in images
            ]
        )
        return
    for each in images:
        print(each.image if each.image == each.source else f"{each.source} {each.image}")
