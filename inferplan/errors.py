"""The errors that this package raises on purpose, and remedies for messages of other programs.

Each message states the problem, what is allowed and what to do.
"""

import re

from inferplan.tables import table


class RehearsalError(Exception):
    """The rehearsal cannot continue: what is wrong (lower case, no period), the remedy, and the
    last log lines with their file.
    """

    def __init__(
        self,
        message: str,
        remedy: str,
        *,
        log_tail: tuple[str, ...] = (),
        log_path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.log_tail = log_tail
        self.log_path = log_path

    def __str__(self) -> str:
        path = f" (whole log: {self.log_path})" if self.log_path else ""
        quoted = "".join(f"\n    {line}" for line in self.log_tail)
        return f"{self.message}{path}. {self.advice}{quoted}"

    @property
    def advice(self) -> str:
        """The remedy as a sentence."""
        return f"{self.remedy[:1].upper()}{self.remedy[1:]}"


class ToolchainError(RehearsalError):
    """A program of the control plane cannot be found, built or verified."""


class ClusterError(RehearsalError):
    """The simulated cluster cannot be started, reached or removed."""


class ForeignClusterError(ClusterError):
    """A kubeconfig names a cluster that this rehearsal did not start. No request was sent to it."""


class BusyError(RehearsalError):
    """Another process is changing the cluster."""


class DiskFullError(RehearsalError):
    """The disk of the rehearsal's programs or of its state is full."""


class ProgramFailed(RehearsalError):  # noqa: N818 - named after what happened; callers read `except ProgramFailed`
    """The program ended with an error; `message` is the program's own message."""

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy="")

    def __str__(self) -> str:
        return self.message


class RegistrationRefused(Exception):  # noqa: N818 - named after what happened
    """The engine rejects a registration."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ObjectFailed(Exception):  # noqa: N818 - named after what happened
    """A request for one object failed, or the object did not become ready."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class OperationError(Exception):
    """An operation failed, or the environment lacks what it needs."""


class RequestError(OperationError):
    """A name, a file or an option is wrong, and nothing was changed."""


class UnsettledError(OperationError):
    """The stack is not as its file declares."""


def remedy_for(program: str, message: str) -> dict[str, str]:
    """The first row of `remedies.toml` for `program` whose `match` is in `message`; empty if there
    is none.
    """
    return next(
        (
            row
            for row in table("workspace/remedies.toml")[program]
            if re.search(row["match"], message)
        ),
        {},
    )


def one_line(text: object) -> str:
    """`text` on one line of at most 300 characters, for a message."""
    return " ".join(str(text).split())[:300]


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP ended the command. Unlike Ctrl-C it reaches this process alone, not its
    children.
    """


class DeniedError(OperationError):
    def __init__(self, message: str, *, permission: str, remedy: str) -> None:
        super().__init__(message)
        self.permission = permission
        self.remedy = remedy


class LoginError(OperationError):
    """The user is not logged in, so AWS cannot be queried. `problem` says why, `remedy` is
    the command to log in.
    """

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem}. Log in, for example: {remedy}")
        self.problem = problem
        self.remedy = remedy
