"""Quantities as Kubernetes itself writes them: whatever a webhook hands back compares equal to what was declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from components.spec import Bytes, Cpu, bytes_of, canonical_cpu, canonical_size, millicores_of

ROOT = Path(__file__).parents[2]


# tests/rehearsal/test_cluster_behaviour.py asks a real API server the same.
@pytest.mark.parametrize(("written", "canonical"), [("172000m", "172"), ("0.5", "500m"), ("1500m", "1500m"), ("4", "4"), ("2.0", "2")])
def test_cpu_is_whole_cores_where_they_are_whole(written, canonical):
    assert canonical_cpu(written) == canonical


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("1024Mi", "1Gi"),
        ("1843Gi", "1843Gi"),
        ("0.5Gi", "512Mi"),
        ("2048Gi", "2Ti"),
        ("1.5Ki", "1536"),
        ("16000M", "16G"),
        ("1073741824", "1073741824"),
        ("64000000000", "64G"),
    ],
)
def test_a_size_is_in_the_largest_unit_of_its_kind_that_is_exact(written, canonical):
    assert canonical_size(written) == canonical


@given(st.integers(1, 999_999), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_the_amount_stays_and_a_second_time_changes_nothing(number, unit):
    once = canonical_size(f"{number}{unit}")
    assert bytes_of(once) == bytes_of(f"{number}{unit}")
    assert canonical_size(once) == once
    assert millicores_of(canonical_cpu(f"{number}m")) == number


@pytest.mark.parametrize("digit", ["\u0662", "\u0967", "\uff11", "\u00b2", "\U0001d7d0"])
def test_quantities_are_of_ascii_digits(digit):
    for kind, text in ((Bytes, "Ti"), (Bytes, ""), (Cpu, ""), (Cpu, "m")):
        assert TypeAdapter(kind).validate_python(f"2{text}")
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(f"{digit}{text}")
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(f"2{text}\n")


def test_no_pattern_of_the_program_means_digits_of_every_script():
    # Python's and pydantic's \d match the digits of some sixty scripts, which the API server and AWS do not take.
    roots = ("cli", "components", "infra", "policies", "rehearsal", "review", "stackfile")
    files = (path for root in roots for path in (ROOT / root).rglob("*.py"))
    assert [str(path) for path in files if re.search(r"(?<!\\)\\d", path.read_text(encoding="utf-8"))] == []
