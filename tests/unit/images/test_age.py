"""Rows of tables whose sources were read too long ago."""

from datetime import date

import pytest

from inferplan.images.age import main, old_rows
from inferplan.images.catalogue import catalogue


@pytest.mark.parametrize(
    ("today", "old"), [(date(2026, 12, 31), 0), (date(2027, 1, 31), 0), (date(2027, 2, 1), 1)]
)
def test_a_row_is_old_after_two_whole_months(today, old):
    [row] = [each for each in catalogue().values() if each.name == "vllm"]
    assert row.read == "2026-11"
    listed = [each for each in old_rows(today) if each[1:] == ("images/catalogue.toml", "vllm")]
    assert len(listed) == old


def test_rows_of_every_dated_table_are_read():
    files = {file for _, file, _ in old_rows(date(2100, 1, 1))}
    assert {
        "images/catalogue.toml",
        "hardware/accelerators.toml",
        "hardware/machines.csv",
        "components/monitoring/exporters.toml",
        "components/serving/sglang/metrics.toml",
    } <= files
    months = [month for month, *_ in old_rows(date(2100, 1, 1))]
    assert months == sorted(months)


def test_the_command_prints_old_rows_and_fails(capsys):
    assert main(0) == 1
    assert "hardware/machines.csv" in capsys.readouterr().out
    assert main(1200) == 0
    assert capsys.readouterr().out == ""
