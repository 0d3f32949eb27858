"""`inferplan versions STACK`: the newest versions of EKS add-ons and node images, and the lines that pin them."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import Stack


def command(
    stack: Stack,
    as_json: Annotated[bool, typer.Option("--json", help="Print field, pinned and newest version as JSON.")] = False,
) -> None:
    """Ask AWS for the newest versions of the add-ons and node images of STACK; changes nothing."""
    from cli.screen import results, show, show_json, table
    from components.platforms.aws.cluster_spec import EksCluster
    from operations.doctor.aws.account import Credentials
    from operations.versions import versions
    from operations.workspace import open_workspace

    workspace = open_workspace(stack)
    cluster = workspace.settings.cluster
    ask = Credentials(cluster.region if isinstance(cluster, EksCluster) else "", workspace.typed)
    found = list(versions(workspace, ask))
    if as_json:
        show_json([{"field": each.field, "pinned": each.pinned, "newest": each.newest} for each in found])
        return
    rows = table("versions", "field", "pinned", "newest")
    for each in found:
        rows.add_row(each.field, each.pinned or "-", each.newest)
    results().print(rows)
    behind = sum(not each.is_current for each in found)
    show(f"{behind} of {len(found)} can be pinned to a newer version: write it to the field, then run inferplan plan {workspace.typed}")
