"""What is quoted of pods whose containers ended badly."""

from __future__ import annotations

from rehearsal.engine.wait.reasons import last_words


def pod(name, made, *states, kind="containerStatuses"):
    statuses = [{"name": f"c{number}", **state} for number, state in enumerate(states)]
    return {"metadata": {"name": name, "creationTimestamp": f"2026-11-20T10:00:0{made}Z"}, "status": {kind: statuses}}


def ended(code, message, *, running=None):
    told = {"terminated": {"exitCode": code, "message": message}}
    return {"state": told} if running is None else {"state": running, "lastState": told}


def test_the_last_line_of_the_newest_try_is_quoted():
    tries = [pod("b", 1, ended(5, "older")), pod("a", 2, ended(3, "noise\nnot READY: x.bin: no\n"))]
    assert last_words(tries) == "pod a: container c0 ended with exit code 3: not READY: x.bin: no"


def test_a_container_that_is_to_be_started_again_is_quoted_and_one_that_runs_is_not():
    waiting, running = {"waiting": {"reason": "CrashLoopBackOff"}}, {"running": {}}
    assert "READY is missing" in last_words([pod("a", 1, ended(1, "READY is missing", running=waiting), kind="initContainerStatuses")])
    assert last_words([pod("a", 1, ended(1, "an old fault", running=running))]) == ""


def test_who_ended_well_or_silently_is_not_quoted():
    assert (
        last_words([pod("a", 1, ended(0, "READY"), ended(137, ""), {"state": {"running": {}}}), pod("b", 1), {"metadata": {"name": "c"}}])
        == ""
    )
