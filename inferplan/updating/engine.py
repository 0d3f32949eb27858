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

    def resolved(self, command: str, *, simulated: bool, rehearsed: int = 0) -> Engine:
        """The engine of `command` on a stack whose cluster is `simulated`, with so many objects of
        a rehearsal, which is continued. Raises OperationError without the Pulumi CLI if it is
        required: a real cluster is only rehearsed on request.
        """
        if rehearsed and self is Engine.AUTO:
            return Engine.REHEARSAL
        if rehearsed and self is Engine.PULUMI:
            raise OperationError(
                f"The simulated cluster has {rehearsed} objects of a rehearsal, which Pulumi's state"
                f" does not know. Nothing was changed. Continue the rehearsal: inferplan {command}"
                " --engine rehearsal. Or remove its objects first: inferplan down"
                f" {command.partition(' ')[2]} --engine rehearsal"
            )
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
