"""Which engine updates a stack: the Pulumi CLI or the rehearsal."""

from __future__ import annotations

import shutil
from enum import StrEnum

from inferplan.operations.errors import OperationError


class Engine(StrEnum):
    AUTO = "auto"
    PULUMI = "pulumi"
    REHEARSAL = "rehearsal"

    def resolved(self) -> Engine:
        installed = shutil.which("pulumi") is not None
        if self is Engine.PULUMI and not installed:
            raise OperationError(
                "--engine pulumi needs the Pulumi CLI on PATH (https://www.pulumi.com/docs/install). Install it, or use --engine rehearsal"
            )
        if self is Engine.AUTO:
            return Engine.PULUMI if installed else Engine.REHEARSAL
        return self
