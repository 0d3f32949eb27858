"""Start and stop times of pods, from their declarations, in seconds."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.subjects.pods import Container, PodTemplate

_SLEEP = re.compile(r"\bsleep\s+([0-9]+(?:\.[0-9]+)?)([smh]?)\b")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
# What Kubernetes takes where nothing is said.
_GRACE = 30
_PERIOD = 10
_FAILURES = 3
# Options by which servers say how long they let requests finish.
_DRAIN_OPTIONS = ("--shutdown-timeout", "--exit-timeout-secs")


def budget_of(probe: Field) -> float:
    """The time a probe waits before it gives up."""
    period = probe.at("periodSeconds").number() or _PERIOD
    failures = probe.at("failureThreshold").number() or _FAILURES
    return (probe.at("initialDelaySeconds").number() or 0) + period * failures


def grace_of(pod: PodTemplate) -> float:
    """The grace period of a pod."""
    given = pod.at("terminationGracePeriodSeconds").number()
    return _GRACE if given is None else given


def drain_of(container: Container) -> float:
    """The time a container declares for stopping: the preStop sleep and the server's drain option; 0 where it says nothing."""
    hook = container.at("lifecycle", "preStop")
    sleep = hook.at("sleep", "seconds").number() or 0
    command = " ".join(each.text() for each in hook.at("exec", "command").each())
    sleep += sum(float(number) * _SECONDS[unit] for number, unit in _SLEEP.findall(command))
    drain = next((value for value in map(container.option, _DRAIN_OPTIONS) if value and value.isdigit()), "0")
    return sleep + float(drain)
