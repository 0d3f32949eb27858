from __future__ import annotations

from typing import Any

import pytest

from inferplan.audit import standstill
from inferplan.audit.standstill import is_outdated, patiently
from inferplan.kube.api import ApiError

BUSY = ApiError(503, "ServiceUnavailable", "etcdserver: request timed out", {})


def answering(*outcomes):
    """A request that ends with each of `outcomes` in turn."""
    left = [*outcomes]

    def send():
        outcome = left.pop(0)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    return send, left


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr(standstill, "_PAUSE_SECONDS", 0)


def test_a_request_that_a_busy_server_rejects_is_sent_again():
    send, left = answering(BUSY, ApiError(429, "TooManyRequests", "retry later", {}), "stored")
    assert patiently(send) == "stored"
    assert left == []


@pytest.mark.parametrize(
    "error",
    [
        ApiError(422, "Invalid", "spec.replicas: must be greater than or equal to 0", {}),
        ApiError(500, "InternalError", "failed calling webhook a.example.com: no answer", {}),
    ],
)
def test_a_rejection_is_final(error):
    send, left = answering(error, "stored")
    with pytest.raises(ApiError):
        patiently(send)
    assert left == ["stored"]


def test_a_server_that_stays_busy_is_given_up(monkeypatch):
    monkeypatch.setattr(standstill, "_RETRY_SECONDS", -1)
    send, _ = answering(BUSY)
    with pytest.raises(ApiError, match="timed out"):
        patiently(send)


class Known:
    """A pod whose claim the scheduler calls unbound, and the claim."""

    def __init__(
        self, phase, node=None, message="pod has unbound immediate PersistentVolumeClaims"
    ):
        about = {"type": "PodScheduled", "status": "False", "message": f"0/5 nodes: {message}"}
        volumes = [{"name": "m", "persistentVolumeClaim": {"claimName": "m-a-1"}}]
        metadata = {"name": "a-1", "namespace": "llm"}
        spec = {"volumes": volumes, **({"nodeName": node} if node else {})}
        pod = {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"conditions": [about]}}
        metadata = {"name": "m-a-1", "namespace": "llm"}
        claim = {"kind": "PersistentVolumeClaim", "metadata": metadata, "status": {"phase": phase}}
        self.objects = {"Pod": [pod], "PersistentVolumeClaim": [claim]}

    def known(self, kind):
        return self.objects[kind]


def test_what_the_scheduler_said_before_a_claim_was_bound_is_outdated():
    cluster: Any = Known
    assert is_outdated(cluster("Bound"))
    assert not is_outdated(cluster("Pending"))
    assert not is_outdated(cluster("Bound", node="gpu-1"))
    assert not is_outdated(cluster("Bound", message="2 Insufficient nvidia.com/gpu"))
