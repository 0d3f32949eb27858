from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from inferplan.components.spec import Bytes, Cpu
from inferplan.kube.quantity import amount, bytes_of, canonical, millicores_of, size_quantity
from tests.unit.kube.quantities import NOT_QUANTITIES, NOT_READ, QUANTITIES, texts

ROOT = Path(__file__).parents[3]


# As the API server reads and writes them; tests/rehearsal/test_cluster_behaviour.py asks it for
# every row.
@pytest.mark.parametrize(("text", "value", "written"), QUANTITIES)
def test_a_quantity_is_read_and_written_as_the_api_server_does(text, value, written):
    assert amount(text) == Decimal(value)
    assert canonical(text) == written


@pytest.mark.parametrize("text", [*NOT_QUANTITIES, *NOT_READ])
def test_other_text_is_not_a_quantity(text):
    assert amount(text) is None
    for read in (canonical, bytes_of, millicores_of):
        with pytest.raises(ValueError, match="is not a"):
            read(text)


@pytest.mark.parametrize("value", [None, True, {}, [], float("nan"), float("inf"), Decimal("NaN")])
def test_other_values_are_not_quantities(value):
    assert amount(value) is None


@given(
    st.text(max_size=20)
    | st.from_regex(r"[+-]?[0-9.]*[eEinumkKMGTP]*[+-]?[0-9]*", fullmatch=True)
    | st.floats()
    | st.none()
)
def test_any_value_is_a_finite_number_or_none(value):
    read = amount(value)
    assert read is None or read.is_finite()


@given(texts())
def test_the_canonical_form_stays_as_it_is_and_never_loses_an_amount(text):
    once = canonical(text)
    assert canonical(once) == once
    before, after = amount(text), amount(once)
    assert before is not None
    assert after is not None
    assert before <= after < before + Decimal("0.001")


@given(st.integers(1, 999_999), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_sizes_and_cores_keep_their_amount(number, unit):
    assert (
        bytes_of(canonical(f"{number}{unit}"))
        == bytes_of(f"{number}{unit}")
        == number * bytes_of(f"1{unit}")
    )
    assert bytes_of(size_quantity(number)) == number
    assert millicores_of(canonical(f"{number}m")) == number


@pytest.mark.parametrize("digit", ["\u0662", "\u0967", "\uff11", "\u00b2", "\U0001d7d0"])
def test_quantities_are_of_ascii_digits(digit):
    for kind, text in ((Bytes, "Ti"), (Bytes, ""), (Cpu, ""), (Cpu, "m")):
        assert TypeAdapter(kind).validate_python(f"2{text}")
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(f"{digit}{text}")
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(f"2{text}\n")


def test_no_pattern_of_the_program_means_digits_of_every_script():
    # Python's and pydantic's \d match the digits of some sixty scripts, which the API server and
    # AWS do not take.
    files = (ROOT / "inferplan").rglob("*.py")
    assert [
        str(path) for path in files if re.search(r"(?<!\\)\\d", path.read_text(encoding="utf-8"))
    ] == []
