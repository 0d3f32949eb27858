"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from operations.update import Engine

Stack = Annotated[str, typer.Argument(help="Name of a stack.")]
EngineName = Annotated[Engine, typer.Option("--engine", help="The Pulumi CLI, the rehearsal, or auto: the Pulumi CLI if it is installed.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")]
Refresh = Annotated[
    bool | None,
    typer.Option("--refresh/--no-refresh", help="Compare with the live cluster first; the default is the project's options.refresh."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Limit the update to this URN; may be repeated, and * stands for any text. Pulumi CLI only."),
]
Context = Annotated[str | None, typer.Option("--context", help="Read the cluster behind this context of your kubeconfig.")]
