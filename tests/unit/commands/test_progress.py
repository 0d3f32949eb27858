"""What a log shows while things are built, started and applied."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from inferplan.commands.progress import ProgressView
from inferplan.progress import Notice, StepFinished, StepStarted, StepWaiting
from inferplan.rehearsal.wait import object_events as engine

JOB = engine.Target(urn="urn", kind="Job", name="copy", namespace="inference")


@pytest.fixture
def log():
    """A view, and what it has printed so far."""
    stream = io.StringIO()
    view = ProgressView(Console(file=stream, width=60))
    with view:
        yield view, lambda: stream.getvalue().splitlines()


def test_steps_say_what_they_wait_for_whenever_that_changes(log):
    view, lines = log
    view.step(StepStarted("build etcd v3", 1, 5, "Go 1.26, once"))
    for compiled in (10, 10, 20):
        view.step(StepWaiting("build etcd v3", f"the compiler, {compiled} packages so far", 5))
    view.step(
        StepWaiting("start the cluster local", "process 7 that is doing the same (lock /x)", 0)
    )
    view.step(StepFinished("build etcd v3", 1, 5, 12.34, "30 MB"))
    view.step(Notice("a [note]"))
    assert lines() == [
        "[1/5] build etcd v3 (Go 1.26, once)",
        "  build etcd v3: waiting for the compiler, 10 packages so far (5 s)",
        "  build etcd v3: waiting for the compiler, 20 packages so far (5 s)",
        "  start the cluster local: waiting for process 7 that is doing the same (lock /x) (0 s)",
        "[1/5] build etcd v3: done in 12.3 s, 30 MB",
        "note: a [note]",
    ]


def test_a_resource_gets_a_line_when_it_changes_waits_gets_ready_and_fails(log):
    view, lines = log
    view.resource(engine.Applied(target=JOB, change="unchanged"))
    view.resource(engine.Applied(target=JOB, change="created"))
    for _ in range(2):
        view.resource(
            engine.Waiting(target=JOB, reason="0/5 nodes are available", seconds=1, limit=60)
        )
    view.resource(engine.Ready(target=JOB, seconds=2))
    view.resource(engine.Ready(target=JOB, seconds=0))
    view.resource(engine.Failed(target=JOB, message="refused [403]", remedy="ask for less"))
    assert lines() == [
        "+ Job inference/copy",
        "  waiting for Job inference/copy: 0/5 nodes are available (1 s of 60 s)",
        "  Job inference/copy ready after 2.0 s",
        "x Job inference/copy: refused [403]",
        "    ask for less",
    ]


def test_on_a_terminal_the_line_at_the_bottom_counts_on(monkeypatch):
    now = 100.0
    monkeypatch.setattr("inferplan.commands.progress.time", SimpleNamespace(monotonic=lambda: now))
    view = ProgressView(Console(file=io.StringIO(), force_terminal=True))

    def bottom() -> str:
        console = Console(file=io.StringIO(), width=140, force_terminal=True, color_system=None)
        with console.capture() as shown:
            console.print(view)
        return shown.get().strip()

    assert bottom() == ""
    view.resource(engine.Waiting(target=JOB, reason="0/5 nodes are available", seconds=5, limit=60))
    view.step(StepWaiting("build etcd v3", "the compiler", 1))
    now += 7
    bar, text = bottom().split(maxsplit=1)
    assert bar == "━" * 4
    assert (
        text == "waiting for Job inference/copy: 0/5 nodes are available (12 s of 60 s)  and 1 more"
    )
    view.resource(engine.Ready(target=JOB, seconds=12))
    assert bottom() == "build etcd v3: waiting for the compiler (8 s)"
