"""An interrupted run ends, whatever its threads wait for."""

from __future__ import annotations

import threading

import pytest

from rehearsal.cluster.api import Api, Resource
from rehearsal.engine.wait.object_events import Target, silent
from rehearsal.engine.wait.readiness import Readiness
from rehearsal.engine.wait.waiter import Interrupted, Waiter
from rehearsal.engine.wait.watching import Watching
from tests.patience import PATIENCE_SECONDS

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "copy", "namespace": "inference", "uid": "u"}}


@pytest.fixture
def waiter(monkeypatch, tmp_path):
    api = Api("https://127.0.0.1:1", tmp_path)
    monkeypatch.setattr(api, "resource", lambda *_: Resource(base="/apis/batch/v1", plural="jobs", kind="Job", namespaced=True))
    return Waiter(api=api, watching=Watching(api), listener=silent, inspect="kubectl")


def ends(function) -> None:
    """Runs `function` in a thread of its own and fails when it does not come back."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "still waiting"


def test_following_a_kind_for_the_first_time_after_the_end_returns(waiter):
    waiter.watching.stop()
    ends(lambda: waiter.watching.observe("batch/v1", "Job"))


def test_a_wait_that_begins_after_the_end_is_over_at_once(waiter):
    waiter.watching.stop()
    raised = []

    def wait() -> None:
        try:
            waiter.until(
                Target(urn="urn", kind="Job", name="copy", namespace="inference"), JOB, lambda _live: Readiness(why="running"), 600
            )
        except Interrupted as interrupted:
            raised.append(interrupted)

    ends(wait)
    assert raised
