"""`inferplan import FILE`, or with `--context`: a stack file from values, a Deployment or an InferenceService of others."""

from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.import_stack.cluster import import_cluster
from inferplan.commands.import_stack.import_stack import import_stack
from inferplan.commands.screen import note, say, show
from inferplan.errors import RequestError
from inferplan.workspace.files import create


def command(
    accelerator: Annotated[
        str, typer.Option(help="The accelerator of the nodes, such as nvidia-h100.")
    ],
    source: Annotated[
        Path | None,
        typer.Argument(help="Values of the production stack, or a file or folder of manifests."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="Read the servers of this context of your kubeconfig instead of SOURCE."),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Write the stack file although it is smaller than its source."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the stack file here instead of to standard output."
        ),
    ] = None,
) -> None:
    """Write a stack file for the model servers in SOURCE, and list everything that it does not
    carry over.
    """
    if (source is None) == (context is None):
        raise RequestError("Name a SOURCE, or a cluster with --context; exactly one of them.")
    if source is not None:
        imported = import_stack(source, accelerator=accelerator)
    else:
        imported = import_cluster(str(context), accelerator=accelerator)
    if imported.shrinks:
        say("The stack would be smaller than its source:")
        note(imported.shrinks)
        if not partial:
            say("Nothing was written. To write it anyway, add --partial.")
            raise typer.Exit(3)
    if output is None:
        show(imported.text.rstrip("\n"))
    else:
        create(output, imported.text.encode())
    say(f"{len(imported.models)} models imported: {', '.join(imported.models)}")
    for group, lines in imported.groups.items():
        note(f"not carried over ({group}): {each}" for each in lines)
