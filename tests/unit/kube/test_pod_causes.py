"""The cause that a pod's own status states, as a kubelet writes it."""

from __future__ import annotations

import pytest

from inferplan.kube.pod_causes import pod_cause, pods_cause


def pod(name, created, *states, kind="containerStatuses", **status):
    statuses = [{"name": f"c{number}", **state} for number, state in enumerate(states)]
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-11-20T10:00:0{created}Z"},
        "spec": {"containers": [{"name": "c0", "resources": {"limits": {"memory": "4Gi"}}}]},
        "status": {kind: statuses, **status},
    }


def ended(code, message="", *, then=None, reason="Error", at="10:00:05", **more):
    end = {"terminated": {"exitCode": code, "message": message, "reason": reason, "finishedAt": at}}
    return {"state": end, **more} if then is None else {"state": then, "lastState": end, **more}


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}}
RUNNING = {"running": {}}
PULL = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": 'image "x:1" not found'}}}


@pytest.mark.parametrize(
    ("states", "cause"),
    [
        (
            [ended(3, "noise\nnot READY: x.bin: no\n")],
            "ended with exit code 3: not READY: x.bin: no",
        ),
        ([ended(1, "READY is missing", then=BACK_OFF)], "ended with exit code 1: READY is missing"),
        (
            [ended(137, reason="OOMKilled", then=BACK_OFF, restartCount=2)],
            "ended with exit code 137 (OOMKilled, memory limit 4Gi, 2 restarts)",
        ),
        # An engine that loads again after its second end has not recovered.
        (
            [ended(137, reason="OOMKilled", then=RUNNING, restartCount=1, ready=False)],
            "ended with exit code 137 (OOMKilled, memory limit 4Gi, 1 restart)",
        ),
        ([ended(1, "an old error", then=RUNNING, ready=True)], ""),
        ([ended(0, "READY"), {"state": RUNNING}], ""),
        ([{"state": {"waiting": {"reason": "ContainerCreating"}}}], ""),
        ([PULL], 'ImagePullBackOff: image "x:1" not found'),
        (
            [{"state": {"waiting": {"reason": "CreateContainerConfigError"}}}],
            "CreateContainerConfig",
        ),
    ],
)
def test_a_container_states_why_its_pod_does_not_run(states, cause):
    text = pod_cause(pod("a", 1, *states))
    assert cause in text if cause else text == ""
    assert not cause or text.startswith("container c0")
    assert pod_cause(pod("a", 1, *states, kind="initContainerStatuses")) == text


def test_the_newest_end_and_the_newest_pod_come_first():
    first, second = ended(1, "first", at="10:00:05"), ended(2, "second", at="10:00:07")
    assert pod_cause(pod("a", 1, second, first)).endswith("c0 ended with exit code 2: second")
    pods = [pod("b", 1, ended(5, "older")), pod("a", 2, ended(3, "newer")), pod("c", 3)]
    assert pods_cause(pods) == "pod a: container c0 ended with exit code 3: newer"
    assert pods_cause([pod("c", 3), {"metadata": {"name": "d"}}]) == ""


def test_an_evicted_pod_states_its_eviction_and_a_ready_one_nothing():
    evicted = pod("a", 1, phase="Failed", reason="Evicted", message="The node was low on memory.")
    assert pod_cause(evicted) == "Evicted: The node was low on memory."
    ready = [{"type": "Ready", "status": "True"}]
    assert pod_cause(pod("a", 1, ended(1, "old"), conditions=ready)) == ""


def test_a_server_that_ended_without_an_error_and_starts_again_is_a_cause_and_an_init_container_is_none():
    end = {
        "terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-11-28T15:37:07Z"}
    }
    again = {"name": "server", "restartCount": 1, "state": {"running": {}}, "lastState": end}
    done = {"name": "server", "restartCount": 0, "state": end}
    expected = "container server ended with exit code 0 (Completed, 1 restart)"
    assert pod_cause({"status": {"containerStatuses": [again]}}) == expected
    assert pod_cause({"status": {"initContainerStatuses": [again]}}) == ""
    assert pod_cause({"status": {"containerStatuses": [done]}}) == ""
