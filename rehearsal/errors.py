"""Faults of the rehearsal that a person has to act on.

Holds no logic: what was found, what to do next, and the last words of the program that failed. Never a traceback.
"""

from __future__ import annotations


class RehearsalError(Exception):
    """The rehearsal cannot go on.

    Attributes:
        message: what was found and where, lower case, no trailing period.
        remedy: what to do or to type next.
        log_tail: the last lines of the failing component's log, oldest first; empty when there is none.
        log_path: where the whole log is, or None.
    """

    def __init__(self, message: str, remedy: str, *, log_tail: tuple[str, ...] = (), log_path: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.log_tail = log_tail
        self.log_path = log_path

    def __str__(self) -> str:
        """One paragraph, then the quoted log lines, each indented by four spaces."""
        where = f" (whole log: {self.log_path})" if self.log_path else ""
        quoted = "".join(f"\n    {line}" for line in self.log_tail)
        return f"{self.message}{where}; {self.remedy}{quoted}"


class ToolchainError(RehearsalError):
    """A program of the control plane cannot be found, built or verified."""


class ClusterError(RehearsalError):
    """The simulated cluster cannot be started, reached or removed."""


class ForeignClusterError(ClusterError):
    """A kubeconfig names a cluster that this rehearsal did not start, so nothing is sent there."""


class DiskFullError(RehearsalError):
    """No space is left where the rehearsal keeps its programs or its state."""
