"""Whoever waits for a destroy reads which pod or finalizer holds it up."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inferplan.commands.down.down import blockers, naming_blockers
from inferplan.workspace.live import LiveCluster

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


def at(seconds: int) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def pod(**metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "alpha-7f", "namespace": "chat", **metadata},
        "spec": {"nodeName": "rack-3"},
    }


def cluster(*pods: dict[str, Any], namespace: dict[str, Any] | None = None) -> LiveCluster:
    answers = {
        "/apis": {"groups": []},
        "/api/v1": {
            "resources": [
                {"name": "pods", "kind": "Pod", "namespaced": True},
                {"name": "namespaces", "kind": "Namespace", "namespaced": False},
            ]
        },
        "/api/v1/namespaces/chat/pods": {"items": list(pods)},
        "/api/v1/namespaces": {"items": [] if namespace is None else [namespace]},
    }
    return LiveCluster(lambda path: answers[path])


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (
            {"deletionTimestamp": at(90), "finalizers": ["acme.example/drain"]},
            "for 90 s: the finalizer acme.example/drain must be removed",
        ),
        ({"deletionTimestamp": at(90)}, "its containers have not ended on rack-3"),
        ({"deletionTimestamp": at(5)}, None),
        ({"finalizers": ["acme.example/drain"]}, None),
    ],
)
def test_a_pod_that_does_not_end_is_named_with_its_reason(metadata, words):
    said = list(blockers(cluster(pod(**metadata)), "chat", NOW))
    if words is None:
        assert said == []
    else:
        assert len(said) == 1
        assert said[0].startswith("Pod chat/alpha-7f has been terminating")
        assert words in said[0]


def test_a_namespace_says_itself_what_it_still_contains():
    message = "Some resources are remaining: rayservices.ray.io has 1 resource instances"
    conditions = [{"type": "NamespaceContentRemaining", "status": "True", "message": message}]
    home = {
        "metadata": {"name": "chat", "deletionTimestamp": at(60)},
        "status": {"conditions": conditions},
    }
    assert list(blockers(cluster(namespace=home), "chat", NOW)) == [f"Namespace chat: {message}"]


def test_it_is_reported_once_while_it_lasts():
    told, twice = [], threading.Event()
    looks = iter(range(3))
    live = cluster(pod(deletionTimestamp="2026-01-01T00:00:00Z"))
    get = live.get

    def counted(path: str) -> Any:
        if path == "/api/v1/namespaces/chat/pods" and next(looks, 2) == 2:
            twice.set()
        return get(path)

    live.get = counted
    with naming_blockers(live, "chat", told.append, every=0.01):
        assert twice.wait(30)
    assert len(told) == 1
