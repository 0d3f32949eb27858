"""Which engine updates a stack: the Pulumi CLI or the rehearsal."""

from __future__ import annotations

import shutil
from enum import StrEnum

from inferplan.errors import OperationError

_INSTALL = "Install it and put it on PATH (https://www.pulumi.com/docs/install)"


class Engine(StrEnum):
    AUTO = "auto"
    PULUMI = "pulumi"
    REHEARSAL = "rehearsal"

    def resolved(self, command: str, *, simulated: bool) -> Engine:
        """The engine of `command`. Raises OperationError without the Pulumi CLI if it is required:
        a real cluster is only rehearsed on request.
        """
        if self is Engine.REHEARSAL or shutil.which("pulumi") is not None:
            return Engine.PULUMI if self is Engine.AUTO else self
        if self is Engine.AUTO and simulated:
            return Engine.REHEARSAL
        why = (
            "--engine pulumi needs the Pulumi CLI"
            if self is Engine.PULUMI
            else "The stack runs on a real cluster, which needs the Pulumi CLI"
        )
        rehearsal = f"inferplan {command} --engine rehearsal"
        raise OperationError(
            f"{why}, and pulumi is not on PATH. Nothing was changed. {_INSTALL}, or use the"
            f" rehearsal: {rehearsal}"
        )
