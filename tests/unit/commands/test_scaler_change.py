"""A model's scaler of another kind needs two updates; `up` and `plan --against` say so before
anything changes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.updating.downtime import declared_scalers, live_scaler_changes, scaler_changes
from tests.unit.serving.models import declared, vllm

CPU = declared(vllm(replicas={"min": 1, "max": 3, "on": {"cpu": 60}}))
SIGNALS = declared(
    vllm(replicas={"min": 1, "max": 3}), prometheus="http://prometheus.monitoring.svc:9090"
)
NUMBER = declared(vllm(replicas=2))
SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


def cluster(recording, *, owners=()):
    """A cluster with the scalers of `recording`, which have these owners."""
    scalers = [each.inputs for each in recording if each.inputs.get("kind") in SCALERS]
    scalers = [
        {**each, "metadata": {**each["metadata"], "ownerReferences": owners}} for each in scalers
    ]
    live: Any = SimpleNamespace(
        objects=lambda _version, kind, _namespace: {
            each["metadata"]["name"]: each for each in scalers if each["kind"] == kind
        }
    )
    return live


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [(CPU, SIGNALS, "ScaledObject"), (SIGNALS, CPU, "HorizontalPodAutoscaler")],
)
def test_another_kind_of_scaler_is_named_before_an_update(before, after, new):
    [text] = live_scaler_changes(cluster(before), "inference", after)
    assert text.startswith(f"Deployment chat: a {new} replaces its ")
    assert "update twice: first with a number in replicas" in text
    assert list(scaler_changes(declared_scalers(before), declared_scalers(after))) == [text]


@pytest.mark.parametrize(("before", "after"), [(CPU, CPU), (SIGNALS, NUMBER), (NUMBER, SIGNALS)])
def test_the_same_scaler_or_a_number_needs_one_update(before, after):
    assert live_scaler_changes(cluster(before), "inference", after) == []


def test_the_autoscaler_that_keda_makes_is_keda_s_own():
    assert (
        live_scaler_changes(cluster(CPU, owners=[{"kind": "ScaledObject"}]), "inference", SIGNALS)
        == []
    )
