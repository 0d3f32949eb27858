"""The command-line options that `up`, `down` and `recover` share."""

from __future__ import annotations

from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required where there is no terminal.")]
Refresh = Annotated[
    bool | None,
    typer.Option("--refresh/--no-refresh", help="Compare with the live cluster first; the default is the project's options.refresh."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Limit the update to this URN; may be repeated, and * stands for any text. Pulumi CLI only."),
]
