"""The refusal of a stack as both engines understand it.

It lives apart from the faults because it needs the Pulumi SDK, which checking a file does not.
"""

from __future__ import annotations

import pulumi

from stackfile.faults import StackFaults


class StackRefused(StackFaults, pulumi.RunError):
    """Every fault of a stack, raised while a program runs; Pulumi prints its text and no traceback."""
