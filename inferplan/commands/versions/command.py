"""`inferplan versions STACK`: the newest versions of EKS add-ons and node images, and the lines
that pin them.
"""

from typing import Annotated

from inferplan.commands.arguments import Stack, json_option
from inferplan.commands.screen import results, show, show_json, table
from inferplan.commands.versions.newest import versions
from inferplan.workspace.workspace import open_workspace


def command(
    stack: Stack,
    as_json: Annotated[
        bool, json_option("Print field, pinned and newest version as JSON.")
    ] = False,
) -> None:
    """Ask AWS for the newest versions of the add-ons and node images of STACK; changes nothing."""
    workspace = open_workspace(stack)
    newest = list(versions(workspace))
    if as_json:
        show_json(
            [{"field": each.field, "pinned": each.pinned, "newest": each.newest} for each in newest]
        )
        return
    rows = [(each.field, each.pinned or "-", each.newest) for each in newest]
    results().print(table("versions", "field", "pinned", "newest", rows=rows))
    behind = sum(not each.is_current for each in newest)
    show(
        f"{behind} of {len(newest)} can be pinned to a newer version: write it to the field, then"
        f" run inferplan plan {workspace.typed}"
    )
