"""The options of `up` and `down` that decide how an update runs: without questions, with a refresh, on some resources only."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from cli.errors import CommandError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required where there is no terminal.")]
Refresh = Annotated[
    bool | None,
    typer.Option("--refresh/--no-refresh", help="Compare with the live cluster first; the default is the project's options.refresh."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Limit the update to this URN; may be repeated, and * stands for any text. Pulumi CLI only."),
]


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    """What the user chose. `refresh` None leaves the choice to Pulumi.yaml."""

    yes: bool = False
    refresh: bool | None = None
    targets: tuple[str, ...] = ()

    def pulumi_arguments(self) -> list[str]:
        """The same options as arguments of `pulumi up` and `pulumi destroy`."""
        refresh = [] if self.refresh is None else [f"--refresh={str(self.refresh).lower()}"]
        return [*refresh, *(f"--target={each}" for each in self.targets)]

    def check_confirmation(self, command: str) -> None:
        """Raise CommandError where Pulumi would ask for confirmation and nobody could answer."""
        if not self.yes and not sys.stdin.isatty():
            raise CommandError(
                f"There is no terminal to confirm the update on, and nothing was changed. Add --yes to run it without questions: {command} --yes"
            )

    def check_rehearsal(self) -> None:
        """Raise CommandError for an option that the rehearsal does not have."""
        if self.targets:
            raise CommandError(
                f"--target {self.targets[0]}: the rehearsal always applies the whole stack. Leave --target out, or use --engine pulumi."
            )
        if self.refresh is False:
            raise CommandError("--no-refresh: the rehearsal always compares with the live cluster. Leave the option out.")
