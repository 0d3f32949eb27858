"""Which engine updates a stack, the Pulumi CLI or the rehearsal, and the options of an update."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from enum import StrEnum

from operations.errors import CommandError


class Engine(StrEnum):
    """What `--engine` takes."""

    AUTO = "auto"
    PULUMI = "pulumi"
    REHEARSAL = "rehearsal"


def chosen(engine: Engine) -> Engine:
    """`engine` with `auto` decided. Raises CommandError when Pulumi is asked for and not there."""
    there = shutil.which("pulumi") is not None
    if engine is Engine.PULUMI and not there:
        raise CommandError(
            "--engine pulumi needs the Pulumi CLI on PATH (https://www.pulumi.com/docs/install); --engine rehearsal needs nothing",
            exit_code=1,
        )
    if engine is Engine.AUTO:
        return Engine.PULUMI if there else Engine.REHEARSAL
    return engine


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
