"""The errors that operations raise on purpose, and remedies for messages of other programs. Each
message states the problem, what is allowed and what to do.
"""

import re

from inferplan.documents.errors import InvalidStack, unknown
from inferplan.errors import RehearsalError
from inferplan.tables import table

__all__ = [
    "InvalidStack",
    "OperationError",
    "RehearsalError",
    "RequestError",
    "UnsettledError",
    "remedy_for",
    "unknown",
]


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
