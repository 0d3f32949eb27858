"""`inferplan nodes --context NAME`: record the nodes of a cluster as a file for `inferplan audit
--nodes`.
"""

import sys
from typing import Annotated

import typer

from inferplan.commands.nodes.recorded_nodes import record_nodes
from inferplan.commands.screen import note, say


def command(
    context: Annotated[str, typer.Option(help="Context of your kubeconfig.")],
    with_load: Annotated[
        bool,
        typer.Option(
            "--with-load",
            help="Include pods that hold accelerators; needs permission to list pods.",
        ),
    ] = False,
    with_devices: Annotated[
        bool,
        typer.Option(
            "--with-devices",
            help=(
                "Include the devices of DRA drivers; needs permission to list resourceslices and"
                " deviceclasses."
            ),
        ),
    ] = False,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Keep the values of this label and taint too, for example of a node selector; may"
                " be repeated."
            )
        ),
    ] = None,
) -> None:
    """Print the nodes of a cluster as a nodes file: capacity, labels and taints, without names,
    addresses and labels of your own.
    """
    recorded = record_nodes(
        context, with_load=with_load, with_devices=with_devices, labels=label or ()
    )
    sys.stdout.write(recorded.text)
    say(f"{recorded.nodes} nodes recorded")
    several = {
        "labels left out, because their values may name people; keep one with --label": (
            recorded.omitted_labels
        ),
        "values of taints replaced; keep one with --label": recorded.replaced_taints,
        "devices left out, because a nodes file cannot describe them": recorded.omitted_devices,
    }
    notes = [f"{text}: {', '.join(names)}" for text, names in several.items() if names]
    note(
        [
            *notes,
            *(
                f"inferplan audit rejects this file until you edit it: {each}"
                for each in recorded.errors[:3]
            ),
        ]
    )
