"""Which cases of a sweep run in `make test`, and which only in `make test-full`; it decides nothing about a single test."""

from __future__ import annotations

from typing import Any

import pytest


def in_full(*values: Any) -> list[Any]:
    """The values as cases for `parametrize` that run only in `make test-full`, for sweeps of which `make test` keeps a sample."""
    return [pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.full) for each in values]
