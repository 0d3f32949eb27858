"""An audit names monitors that select no object with their port."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferplan.audit.deployed import Change, Deployed
from inferplan.audit.manifest import Manifest
from inferplan.audit.monitors import unscraped
from inferplan.audit.session import Session
from inferplan.rehearsal.wait.object_events import Key

LABELS = {"app": "a"}
SELECTOR = {"selector": {"matchLabels": LABELS}}


def service(port: str) -> dict[str, Any]:
    metadata = {"name": "a", "labels": LABELS}
    spec = {"ports": [{"name": port, "port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def pods(port: str) -> dict[str, Any]:
    containers = [{"name": "c", "ports": [{"name": port, "containerPort": 80}]}]
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    return {**body, "spec": {"template": template}}


def monitor(kind: str, field: str, port: str) -> dict[str, Any]:
    spec = {**SELECTOR, field: [{"port": port}]}
    version = "monitoring.coreos.com/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, "spec": spec}


def side(*bodies: dict[str, Any]) -> Deployed:
    several = [Manifest(body=each, place="all.yaml:1") for each in bodies]
    return Deployed(manifests={Key(each.kind, "n", each.name): each for each in several})


@pytest.mark.parametrize(
    ("kind", "field", "make"),
    [("PodMonitor", "podMetricsEndpoints", pods), ("ServiceMonitor", "endpoints", service)],
)
def test_a_port_that_is_renamed_under_its_monitor_blocks(kind, field, make):
    def found(old: tuple[str, str], new: tuple[str, str]) -> list[tuple[str, str]]:
        sides = [side(make(port), monitor(kind, field, name)) for port, name in (old, new)]
        session = cast("Session", SimpleNamespace())
        change = Change(session=session, old=sides[0], new=sides[1], since=0.0, first=False)
        return [(each.weight, each.field) for each in unscraped(change)]

    blocked = [("blocked", f"spec.{field}[0].port")]
    assert found(("http", "http"), ("web", "http")) == blocked
    assert found(("http", "http"), ("http", "web")) == blocked
    assert found(("http", "http"), ("web", "web")) == []
    assert found(("web", "http"), ("web", "http")) == [("note", f"spec.{field}[0].port")]


def test_a_monitor_of_what_others_declare_is_no_finding():
    new = side(monitor("ServiceMonitor", "endpoints", "http"))
    session = cast("Session", SimpleNamespace())
    change = Change(session=session, old=Deployed(), new=new, since=0.0, first=False)
    assert list(unscraped(change)) == []
