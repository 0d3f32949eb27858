"""Each committed stack against its reviewed outline; `INFERPLAN_UPDATE_OUTLINES=1` writes them
anew, and the diff is the review.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def _containers(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _containers(each)
    elif isinstance(value, dict):
        for key in ("containers", "initContainers"):
            yield from (each for each in value.get(key) or () if "image" in each)
        for each in value.values():
            yield from _containers(each)


@pytest.mark.parametrize("stack", sorted(STACKS))
def test_every_container_of_ours_leaves_its_last_line_in_the_pods_status(stack, monkeypatch):
    monkeypatch.chdir(ROOT)
    others = {"pause", "controller", "plugin", "cluster-autoscaler"}
    policies = {
        (each.name, container["name"]): container.get("terminationMessagePolicy")
        for each in recording_of(stack)
        for container in _containers(each.inputs)
    }
    assert policies
    silent = [where for where, policy in policies.items() if policy != "FallbackToLogsOnError"]
    assert [where for where in silent if where[1] not in others] == []
