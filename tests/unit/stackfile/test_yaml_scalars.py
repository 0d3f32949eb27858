"""Unquoted scalars: the value that the Pulumi CLI sees, and a complaint where readers disagree."""

from __future__ import annotations

import pytest

from inferplan.documents.yaml_scalars import resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("0", 0),
        ("-17", -17),
        ("1.20", 1.2),
        ("1e3", 1000.0),
        ("18446744073709551615", 2**64 - 1),
        ("99999999999999999999", 1e20),
        ("2Ti", "2Ti"),
        ("y", "y"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("8afb486c", "8afb486c"),
        ("0.0.0.0:8080", "0.0.0.0:8080"),
    ],
)
def test_a_scalar_that_every_reader_understands_alike_passes(text, value):
    assert resolve(text) == (value, None)


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("no", "no", "some YAML parsers read a boolean"),
        ("On", "On", "some YAML parsers read a boolean"),
        ("12:30", "12:30", "base-60"),
        ("2026-11-21", "2026-11-21", "read as a date"),
        ("2026-11-21 10:00:00", "2026-11-21 10:00:00", "read as a date"),
        ("010", 8, "read as the number 8"),
        ("0o10", 8, "read as the number 8"),
        ("0x1F", 31, "read as the number 31"),
        ("-0b11", -3, "read as the number -3"),
        ("1_000", 1000, "read as the number 1000"),
        ("+5", 5, "read as the number 5"),
        (".5", 0.5, "read as the number 0.5"),
        (".nan", ".nan", "not a finite number"),
        ("-.inf", "-.inf", "not a finite number"),
        ("1e999", "1e999", "out of range"),
        ("1" * 65, "1" * 65, "65 characters, but the maximum is 64"),
    ],
)
def test_a_scalar_that_readers_disagree_about_is_complained_of_with_a_remedy(text, value, why):
    found, complaint = resolve(text)
    assert found == value
    assert complaint is not None
    assert why in complaint
    assert "uote it" in complaint
