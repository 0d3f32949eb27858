"""The errors that operations raise on purpose. Each message states the problem, what is allowed and what to do."""

from __future__ import annotations


class OperationError(Exception):
    """An operation failed, or the environment lacks what it needs."""


class RequestError(OperationError):
    """A name, a file or an option is wrong, and nothing was changed."""


class UnsettledError(OperationError):
    """The stack is not as its file declares."""
