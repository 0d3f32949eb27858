from __future__ import annotations

from pathlib import Path

from tests.lanes import SCOPES, worker_scope

ROOT = Path(__file__).resolve().parents[2]


def test_each_file_that_shares_a_process_exists_and_is_named_once():
    named = [file for files in SCOPES.values() for file in files]
    assert len(named) == len(set(named))
    assert [file for file in named if not (ROOT / file).is_file()] == []


def test_other_files_have_a_process_to_themselves():
    assert worker_scope("tests/rehearsal/test_gateway.py") == worker_scope(
        "tests/rehearsal/test_stacks.py"
    )
    assert worker_scope("tests/unit/test_lanes.py") == "tests/unit/test_lanes.py"
