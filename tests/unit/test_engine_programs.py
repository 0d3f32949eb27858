"""Building Pulumi's engine for the tests never fails a run: what hinders it is printed, and the tests are skipped with a reason."""

from __future__ import annotations

import time

import pytest

from inferplan.rehearsal.errors import ToolchainError
from tests.engine import programs, requirement


def refuse(*_):
    raise ToolchainError("the Go module proxy refuses github.com/pulumi", "make it reachable")


def hang(*_):
    time.sleep(60)


def fill(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("act", "seconds", "reason"),
    [(refuse, 60, "the Go module proxy refuses"), (hang, 1, "it was not ready after 1 s"), (fill, 60, "No space left on device")],
)
def test_a_hindered_build_ends_in_time_and_names_its_reason(monkeypatch, act, seconds, reason):
    monkeypatch.setattr(programs, "ensure_sources", act)
    assert reason in programs.build(lambda _: None, seconds)


def test_without_an_engine_the_command_succeeds_and_the_tests_are_skipped(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("INFERPLAN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "ensure_sources", refuse)
    assert programs.main() == 0
    assert "going on without Pulumi's engine: the Go module proxy refuses" in capsys.readouterr().err
    assert "run python -m tests.engine.programs" in requirement.missing()
