"""Checks of storage and scalers, on stacks of a few objects: each fires where something is missing,
and is silent where it is there.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.commands.doctor.cluster import ExaminedCluster
from inferplan.commands.doctor.examination import CLUSTER_CHECKS
from inferplan.commands.doctor.findings import run_checks
from inferplan.workspace.live import LiveCluster
from inferplan.workspace.workspace import open_workspace
from tests.unit.doctor.cluster_world import KINDS, NAMESPACE, World, thing


@cache
def onprem() -> Any:
    return open_workspace("onprem").settings


def findings(
    check: str, world: World, *objects: Any, storage: Any = None
) -> list[tuple[str, str, str]]:
    settings = onprem().model_copy(update={"storage": storage or {}})
    recording: Any = objects
    cluster = ExaminedCluster(settings, recording, LiveCluster(world.get), "onprem", "onprem")
    return [
        (each.severity.value, each.message, each.remedy)
        for each in run_checks({check: CLUSTER_CHECKS[check]}, cluster)
    ]


def declared(kind: str, api: str, spec: dict[str, Any]) -> Any:
    inputs = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "chat", "namespace": NAMESPACE},
        "spec": spec,
    }
    return SimpleNamespace(
        custom=True,
        read=False,
        type=f"kubernetes:{api}:{kind}",
        inputs=inputs,
        name="chat",
        urn="chat",
    )


def keda(address: str) -> Any:
    return declared(
        "ScaledObject",
        "keda.sh/v1alpha1",
        {"triggers": [{"type": "prometheus", "metadata": {"serverAddress": address}}]},
    )


def claim(**spec: Any) -> Any:
    return declared("PersistentVolumeClaim", "v1", spec)


DEFAULT = {
    "metadata": {
        "name": "standard",
        "namespace": "",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    }
}
EFS = declared("PersistentVolume", "v1", {"csi": {"driver": "efs.csi.aws.com"}})


@pytest.mark.parametrize(
    ("resource", "objects", "severity", "message"),
    [
        (
            claim(storageClassName="fast"),
            [],
            "error",
            "claim chat needs StorageClass fast, which does not exist",
        ),
        (
            claim(storageClassName="fast"),
            [thing("storage.k8s.io/v1", "StorageClass", "fast")],
            "ok",
            "has the StorageClass fast",
        ),
        (claim(), [], "error", "claim chat needs a default StorageClass, and the cluster has none"),
        (
            claim(),
            [thing("storage.k8s.io/v1", "StorageClass", "standard") | DEFAULT],
            "ok",
            "that is the default",
        ),
        (EFS, [], "error", "needs the CSI driver efs.csi.aws.com, which is not installed"),
        (
            EFS,
            [thing("storage.k8s.io/v1", "CSIDriver", "efs.csi.aws.com")],
            "ok",
            "the CSI driver efs.csi.aws.com is installed",
        ),
        (
            declared("PersistentVolume", "v1", {"nfs": {"server": "nas", "path": "/models"}}),
            [],
            "unknown",
            "reaches nas:/models",
        ),
    ],
)
def test_a_volume_needs_its_class_and_its_driver(resource, objects, severity, message):
    world = World()
    world.objects += objects
    [finding] = findings("storage", world, resource)
    assert (finding[0], message in finding[1]) == (severity, True)


@pytest.mark.parametrize(
    ("phase", "severity"), [("Bound", "ok"), ("Pending", "error"), (None, "error")]
)
def test_an_existing_claim_must_be_bound(phase, severity):
    from inferplan.components.storage.volume_spec import ClaimStoreSpec

    world = World()
    if phase is not None:
        world.objects.append(
            thing("v1", "PersistentVolumeClaim", "models", NAMESPACE, status={"phase": phase})
        )
    [finding] = findings(
        "storage",
        world,
        storage={"shared": ClaimStoreSpec.model_validate({"kind": "pvc", "claimName": "models"})},
    )
    assert finding[0] == severity
    assert finding[1].endswith(
        "is Bound"
        if phase == "Bound"
        else f"is {phase or 'missing'}, and the stack does not create it"
    )


def route(name: str) -> Any:
    return declared(
        "HTTPRoute",
        "gateway.networking.k8s.io/v1",
        {"parentRefs": [{"name": name, "namespace": "infra"}]},
    )


@pytest.mark.parametrize(("name", "severity"), [("public", "ok"), ("private", "error")])
def test_a_route_needs_its_gateway(monkeypatch, name, severity):
    monkeypatch.setitem(KINDS, "gateway.networking.k8s.io/v1", ["Gateway", "HTTPRoute"])
    world = World()
    world.objects.append(thing("gateway.networking.k8s.io/v1", "Gateway", "public", "infra"))
    assert [each[0] for each in findings("ingress", world, route(name))] == [severity]


@pytest.mark.parametrize(
    ("scaler", "objects", "metrics", "severity", "message"),
    [
        (
            declared("HorizontalPodAutoscaler", "autoscaling/v2", {}),
            [],
            False,
            "error",
            "does not serve metrics.k8s.io/v1beta1",
        ),
        (
            declared("HorizontalPodAutoscaler", "autoscaling/v2", {}),
            [],
            True,
            "ok",
            "serves metrics.k8s.io/v1beta1",
        ),
        (
            keda("http://prometheus.monitoring.svc:9090"),
            [],
            False,
            "error",
            "there is no Service monitoring/prometheus",
        ),
        (
            keda("http://prometheus.monitoring.svc:9090"),
            [thing("v1", "Service", "prometheus", "monitoring")],
            False,
            "ok",
            "exists",
        ),
        (
            keda("https://metrics.acme.example"),
            [],
            False,
            "unknown",
            "cannot check from here whether KEDA reaches https://metrics.acme.example",
        ),
        (declared("Deployment", "apps/v1", {}), [], False, "ok", "no model of the stack is scaled"),
    ],
)
def test_a_scaler_needs_its_metrics(monkeypatch, scaler, objects, metrics, severity, message):
    world = World()
    world.objects += objects
    if metrics:
        monkeypatch.setitem(KINDS, "metrics.k8s.io/v1beta1", ["PodMetrics"])
    [finding] = findings("scaling", world, scaler)
    assert (finding[0], message in finding[1]) == (severity, True)
