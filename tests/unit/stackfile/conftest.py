"""Fixtures that the tests of checks share."""

from tests.unit.stackfile.test_checks import lines

__all__ = ["lines"]
