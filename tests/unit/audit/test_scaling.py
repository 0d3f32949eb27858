"""An audit waits for an autoscaler that has to change the replicas of its workload."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferplan.audit.scaling import is_unscaled
from inferplan.rehearsal.wait.object_events import Key
from inferplan.rehearsal.wait.watching import Watching


def watching(replicas: int | None, status: str = "True") -> Watching:
    scaler = {
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {
            "minReplicas": 2,
            "maxReplicas": 4,
            "scaleTargetRef": {"kind": "Deployment", "name": "a"},
        },
        "status": {"conditions": [{"type": "AbleToScale", "status": status}]},
    }
    workloads: dict[Key, Any] = {}
    if replicas is not None:
        workloads[Key("Deployment", "n", "a")] = {"spec": {"replicas": replicas}}
    known = SimpleNamespace(known=lambda _: [scaler], get=workloads.get)
    return cast("Watching", known)


@pytest.mark.parametrize(
    ("replicas", "waits"), [(None, False), (0, False), (1, True), (2, False), (4, False), (5, True)]
)
def test_replicas_outside_the_range_are_changed_later(replicas, waits):
    assert is_unscaled(watching(replicas)) == waits


def test_a_scaler_that_cannot_scale_is_not_waited_for():
    assert not is_unscaled(watching(1, status="False"))
