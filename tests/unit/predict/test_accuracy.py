"""The page and the bands are those of the measurements, so that no report shows a better error than
the comparisons have.
"""

from __future__ import annotations

import re

import pytest

from tests.unit.predict.facts import library

library()

from tests.unit.predict.accuracy import compared, texts  # noqa: E402 - after the skip


@pytest.mark.full
def test_the_page_and_the_bands_are_those_of_the_measurements():
    found = list(compared())
    assert (
        sum(not each.unknown and "not recorded" not in each.row["version"] for each in found) >= 20
    )
    # A source is a page, or a package with its version.
    assert all(
        each.row["link"].startswith("https://") or re.search(r" [0-9]+\.[0-9]+", each.row["link"])
        for each in found
    )
    for path, text in texts(found).items():
        assert path.read_text(encoding="utf-8") == text, "run python -m tests.unit.predict.accuracy"
