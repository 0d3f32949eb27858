"""Which engine brings a stack up: the Pulumi CLI where there is one, the rehearsal where there is none or by wish."""

from __future__ import annotations

import shutil
from enum import StrEnum

from cli.errors import CommandError


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
