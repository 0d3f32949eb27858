"""Each committed stack against its reviewed outline; `INFERPLAN_UPDATE_OUTLINES=1` writes them
anew, and the diff is the review.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from tests.stacks.outline import outline
from tests.stacks.test_committed_stacks import ROOT, STACKS, recording_of

GOLDEN = Path(__file__).with_name("outlines")
_LONGEST = 60


@pytest.mark.parametrize("stack", sorted(STACKS))
def test_a_stack_is_what_was_reviewed(stack, monkeypatch):
    monkeypatch.chdir(ROOT)
    now = outline(recording_of(stack))
    path = GOLDEN / f"{stack}.txt"
    if os.environ.get("INFERPLAN_UPDATE_OUTLINES"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(now)
    reviewed = path.read_text() if path.exists() else ""
    changes = list(
        difflib.unified_diff(
            reviewed.splitlines(), now.splitlines(), "reviewed", "now", lineterm="", n=1
        )
    )
    shown = "\n".join(changes[:_LONGEST])
    assert not changes, (
        f"{len(changes)} lines differ; write them anew with INFERPLAN_UPDATE_OUTLINES=1 and review"
        f" the diff:\n{shown}"
    )


def test_an_outline_shows_no_secret():
    for path in GOLDEN.glob("*.txt"):
        assert all(
            "[secret]" in line
            for line in path.read_text().splitlines()
            if line.strip().startswith(("data:", "stringData:"))
        )
