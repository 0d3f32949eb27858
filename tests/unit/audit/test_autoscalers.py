"""An audit names the autoscalers that cannot scale."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferplan.audit.autoscalers import unscalable
from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.manifest import Manifest
from inferplan.audit.session import Session
from inferplan.rehearsal.wait.object_events import Key

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 70}}}
SESSION = cast("Session", SimpleNamespace(watching=SimpleNamespace(get=lambda _: None)))


def scaler(name: str, target: str = "", kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    spec = {"scaleTargetRef": {"kind": kind, "name": target or name}, **spec}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": spec,
    }


def server(name: str, *requests: dict[str, str], **labels: str) -> dict[str, Any]:
    containers = [
        {"name": f"c{index}", "resources": {"requests": each}}
        for index, each in enumerate(requests)
    ]
    labels = {"app": name, **labels}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": spec,
    }


def side(*bodies: dict[str, Any]) -> Deployed:
    several = [Manifest(body=each, place="all.yaml:1") for each in bodies]
    return Deployed(manifests={Key(each.kind, "n", each.name): each for each in several})


def found(old: Deployed, new: Deployed) -> list[tuple[str, str, str]]:
    change = Change(session=SESSION, old=old, new=new, since=0.0, first=not old.manifests)
    return [(each.weight, each.object, each.field) for each in unscalable(change)]


SOUND = (server("a", {"cpu": "1"}), scaler("a", metrics=[CPU]))


def test_a_container_without_a_request_stops_its_autoscaler():
    broken = (server("a", {"cpu": "1"}, {}), SOUND[1])
    field = "spec.template.spec.containers[1].resources"
    assert found(side(*SOUND), side(*broken)) == [("blocked", "Deployment n/a", field)]
    assert found(side(*broken), side(*broken)) == [("note", "Deployment n/a", field)]
    assert found(side(*SOUND), side(*SOUND)) == []


def test_a_new_metric_without_a_request_is_to_blame():
    old = (server("a", {}), scaler("a"))
    new = (server("a", {}), scaler("a", metrics=[CPU]))
    expected = ("blocked", "HorizontalPodAutoscaler n/a", "spec.metrics[0]")
    assert found(side(*old), side(*new)) == [expected]


def test_two_autoscalers_of_the_same_pods_stop():
    second = server("b", {"cpu": "1"}, app="a", track="canary")
    new = side(*SOUND, second, scaler("b", metrics=[CPU]))
    assert found(side(*SOUND), new) == [
        ("blocked", "HorizontalPodAutoscaler n/a", "spec.scaleTargetRef")
    ]
    assert found(new, new)[0][0] == "note"


@pytest.mark.parametrize("kind", ["CronJob", "DaemonSet", "Job"])
def test_a_kind_without_replicas_is_not_scaled(kind):
    new = side(*SOUND, scaler("b", kind=kind))
    assert found(side(*SOUND), new) == [
        ("blocked", "HorizontalPodAutoscaler n/b", "spec.scaleTargetRef.kind")
    ]
