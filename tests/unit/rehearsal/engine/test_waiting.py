"""The end of hopeless and of interrupted waits."""

from __future__ import annotations

import threading

import pytest

from inferplan.kube.api import Api, Resource
from inferplan.progress import silent
from inferplan.rehearsal.wait import timeouts
from inferplan.rehearsal.wait.object_events import Target
from inferplan.rehearsal.wait.readiness import Readiness
from inferplan.rehearsal.wait.timeouts import IdleClock
from inferplan.rehearsal.wait.waiter import Interrupted, Waiter, _too_late
from inferplan.rehearsal.wait.watching import Watching, _Collection
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def now(monkeypatch):
    """The time, which a test sets."""
    now = [100.0]
    monkeypatch.setattr(timeouts.time, "monotonic", lambda: now[0])
    return now


def test_the_idle_clock_counts_from_the_last_change(now):
    clock = IdleClock()
    now[0] += 7
    assert clock.seconds == 7
    clock.reset()
    now[0] += 2
    assert clock.seconds == 2


def test_the_idle_clock_waits_until_the_last_request_has_ended(now):
    clock = IdleClock()
    with clock.busy():
        with pytest.raises(ValueError, match="rejected"), clock.busy():
            raise ValueError("rejected")
        now[0] += 50
        assert clock.seconds == 0
    now[0] += 3
    assert clock.seconds == 3


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "copy", "namespace": "inference", "uid": "u"},
}


@pytest.fixture
def waiter(monkeypatch, tmp_path):
    api = Api("https://127.0.0.1:1", tmp_path)
    monkeypatch.setattr(
        api,
        "resource",
        lambda *_: Resource(base="/apis/batch/v1", plural="jobs", kind="Job", namespaced=True),
    )
    return Waiter(api=api, watching=Watching(api), listener=silent, inspect="kubectl")


def ends(function) -> None:
    """Run `function` in a thread; fail if it does not return."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "still waiting"


def test_watching_a_new_kind_after_an_interrupt_returns(waiter):
    waiter.watching.stop()
    ends(lambda: waiter.watching.observe("batch/v1", "Job"))


def test_a_wait_that_begins_after_an_interrupt_ends_immediately(waiter):
    waiter.watching.stop()
    raised = []
    target = Target(urn="urn", kind="Job", name="copy", namespace="inference")

    def wait() -> None:
        try:
            waiter.until(target, JOB, lambda _live: Readiness(why="running"), 600)
        except Interrupted as interrupted:
            raised.append(interrupted)

    ends(wait)
    assert raised


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        ('0/3 nodes are available: persistentvolumeclaim "models" not found', "create the claim"),
        ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu", "request less"),
        (
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector",
            "node selector, affinity and tolerations",
        ),
    ],
)
def test_the_remedy_of_a_pod_without_a_node_fits_its_cause(why, remedy):
    message = _too_late(600, why, "inspect it").remedy
    assert remedy in message
    assert ("request less" in message) == ("Insufficient" in why)


def test_an_object_that_is_ready_needs_no_watch(waiter, monkeypatch):
    monkeypatch.setattr(
        waiter.watching, "observe", lambda *_: pytest.fail("it lists every object of the kind")
    )
    live = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n"},
        "status": {"phase": "Active"},
    }
    assert waiter.ready(Target("Namespace", "", "n", ""), live, 1) is live


def test_copies_are_held_without_their_field_managers(waiter):
    live = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "managedFields": [{"manager": "kubelet"}]},
    }
    collection = _Collection(path="/api/v1/pods", kind="Pod", api_version="v1")
    waiter.watching._keep(collection, live)
    assert collection.objects["n", "p"]["metadata"] == {"name": "p", "namespace": "n"}
