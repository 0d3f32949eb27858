"""The CLI's messages before an update and during a destroy, with a real API server."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import yaml

from inferplan.commands.down.down import blockers
from inferplan.errors import OperationError
from inferplan.kube.api import Api
from inferplan.rehearsal.cluster import Cluster
from inferplan.updating.preflight import check_operators, check_rights
from inferplan.updating.update import patch_simulated_volume
from inferplan.updating.volumes import settle_volumes
from inferplan.workspace.live import LiveCluster, ObjectKey
from tests.scenarios.play import client

pytestmark = pytest.mark.cluster

HOME = "stuck"
PODS = f"/api/v1/namespaces/{HOME}/pods"
FINALIZER = "acme.example/drain"


def test_preflight_names_only_operators_whose_kinds_are_not_served(cluster: Cluster):
    live = LiveCluster(cluster.get)
    served = ObjectKey("apps/v1", "Deployment", "chat", "llama")
    check_operators([served], live, stack="chat", simulated=False)
    # A version that KEDA never had: another test may have installed KEDA's definitions on the
    # shared cluster.
    with pytest.raises(OperationError) as caught:
        check_operators(
            [served, ObjectKey("keda.sh/v9", "ScaledObject", "chat", "llama")],
            live,
            stack="chat",
            simulated=False,
        )
    assert "KEDA: the cluster does not serve ScaledObject of keda.sh/v9; install it: " in str(
        caught.value
    )
    assert "Deployment" not in str(caught.value)


@pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="no kubectl on PATH, which lists an account's rights"
)
def test_preflight_names_missing_rights_and_administrator_has_all(
    cluster: Cluster, tmp_path, monkeypatch
):
    live, objects = (
        LiveCluster(cluster.get),
        [ObjectKey("apps/v1", "Deployment", "default", "llama")],
    )
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    context = config["current-context"]
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    check_rights(objects, live, context, stack="chat")
    for each in config["users"]:
        each["user"]["as"] = "intern@acme.example"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    with pytest.raises(OperationError) as caught:
        check_rights(objects, live, context, stack="chat")
    assert (
        f"Your account in context {context} lacks rights that chat needs. Nothing was changed."
        in str(caught.value)
    )
    assert "deployments.apps" in str(caught.value)


def _held(api: Api) -> None:
    """A pod that a finalizer holds, in a namespace, both deleted."""
    api.request(
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}},
    )
    spec = {
        "containers": [{"name": "probe", "image": "probe:1"}],
        "automountServiceAccountToken": False,
    }
    metadata = {"name": "alpha", "namespace": HOME, "finalizers": [FINALIZER]}
    api.request(
        "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )
    api.request("DELETE", f"{PODS}/alpha", query={"gracePeriodSeconds": "0"})
    api.request("DELETE", f"/api/v1/namespaces/{HOME}")


def test_pod_that_blocks_a_destroy_is_named_with_its_finalizer(cluster: Cluster):
    live = LiveCluster(cluster.get)
    with client(cluster) as api:
        _held(api)
        try:
            now = datetime.now(UTC)
            assert list(blockers(live, HOME, now)) == []
            [first, *_] = blockers(live, HOME, now + timedelta(seconds=120))
            assert first.startswith(f"Pod {HOME}/alpha has been terminating for 1")
            assert f"the finalizer {FINALIZER} must be removed" in first
        finally:
            release = [{"op": "remove", "path": "/metadata/finalizers"}]
            api.request("PATCH", f"{PODS}/alpha", release, media="application/json-patch+json")
    assert list(blockers(live, HOME, datetime.now(UTC))) == []


def _until(api: Api, path: str, phase: str) -> None:
    """Return when the object at `path` has the phase, by a watch on it."""
    collection, _, name = path.rpartition("/")
    now = api.request("GET", path)
    if now["status"].get("phase") == phase:
        return
    query = {
        "fieldSelector": f"metadata.name={name}",
        "resourceVersion": now["metadata"]["resourceVersion"],
        "timeoutSeconds": "30",
    }
    for _, each in api.watch(collection, query):
        if each.get("status", {}).get("phase") == phase:
            return
    raise AssertionError(f"{path} never became {phase}")


def test_released_volume_binds_next_claim(cluster: Cluster):
    volume, claim = (
        ObjectKey("v1", "PersistentVolume", "", "kept-share"),
        ObjectKey("v1", "PersistentVolumeClaim", "default", "share"),
    )
    about = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    where = {
        "nfs": {"server": "nas.acme.example", "path": "/llm"},
        "claimRef": {"namespace": "default", "name": "share"},
    }
    disk = {
        **about,
        **where,
        "capacity": {"storage": "1Ti"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    wish = {**about, "volumeName": "kept-share", "resources": {"requests": {"storage": "1Mi"}}}
    labels = {"app.kubernetes.io/managed-by": "inferplan"}
    volumes, claims = (
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/default/persistentvolumeclaims",
    )
    with client(cluster) as api:
        metadata = {"name": "kept-share", "labels": labels}
        api.request(
            "POST",
            volumes,
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": disk},
        )
        try:
            for _ in range(2):
                api.request(
                    "POST",
                    claims,
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": "share"},
                        "spec": wish,
                    },
                )
                _until(api, f"{claims}/share", "Bound")
                api.request("DELETE", f"{claims}/share")
                _until(api, f"{volumes}/kept-share", "Released")
                settle_volumes(
                    [volume, claim],
                    LiveCluster(cluster.get),
                    partial(patch_simulated_volume, cluster),
                    print,
                )
                _until(api, f"{volumes}/kept-share", "Available")
        finally:
            api.request("DELETE", f"{volumes}/kept-share")
