"""A rehearsal never deletes what it did not create, also not with the namespace: on a real control
plane.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace, Service

from inferplan.kube.api import ApiError
from inferplan.rehearsal.apply.run import apply, down
from inferplan.rehearsal.wait.object_events import ApplyFailed
from tests.rehearsal.commands import STACK, inferplan
from tests.rehearsal.engine_programs import PROJECT

pytestmark = pytest.mark.cluster
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "source"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
NOTES: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "notes"},
    "data": {"a": "b"},
}


@pytest.fixture
def api(cluster):
    client = cluster.api()
    yield client
    client.close()


def home(name: str) -> None:
    """A namespace with objects for which controllers make others."""
    inside = Namespace(
        name, metadata={"name": name}, opts=pulumi.ResourceOptions(retain_on_delete=True)
    ).metadata["name"]
    ConfigMap(
        f"{name}-settings", metadata={"name": "settings", "namespace": inside}, data={"a": "b"}
    )
    Service(
        f"{name}-web",
        metadata={"name": "web", "namespace": inside},
        spec={"selector": {"app": "web"}, "ports": [{"port": 80}]},
    )
    pod: Any = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    annotations = {"pulumi.com/skipAwait": "true"}
    metadata: Any = {"name": "web", "namespace": inside, "annotations": annotations}
    spec: Any = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    Deployment(f"{name}-web", metadata=metadata, spec=spec)


def exists(api: Any, path: str) -> bool:
    try:
        live = api.request("GET", path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return "deletionTimestamp" not in live["metadata"]


def test_down_names_a_claim_of_the_user_and_deletes_nothing_and_removes_all_once_it_is_gone(
    cluster, api
):
    up(cluster, "theirs")
    api.request("POST", "/api/v1/namespaces/theirs/persistentvolumeclaims", CLAIM)
    with pytest.raises(ApplyFailed, match="PersistentVolumeClaim source") as failed:
        down(cluster)
    assert "Nothing was deleted" in str(failed.value)
    assert "--keep-namespace" in str(failed.value)
    assert exists(api, "/api/v1/namespaces/theirs/persistentvolumeclaims/source")
    assert exists(api, "/api/v1/namespaces/theirs/configmaps/settings")
    api.request("DELETE", "/api/v1/namespaces/theirs/persistentvolumeclaims/source")
    down(cluster)
    assert not exists(api, "/api/v1/namespaces/theirs")


def up(cluster: Any, *names: str, kept: tuple[str, ...] = ()) -> None:
    apply(
        lambda: [home(each) for each in names], cluster, project=PROJECT, stack="foreign", kept=kept
    )


def test_a_removed_namespace_and_a_move_stop_before_anything_is_deleted_and_keep_it_on_request(
    cluster, api
):
    up(cluster, "before")
    api.request("POST", "/api/v1/namespaces/before/configmaps", NOTES)
    with pytest.raises(ApplyFailed, match="ConfigMap notes"):
        up(cluster, "after")
    assert exists(api, "/api/v1/namespaces/before/configmaps/settings")
    up(cluster, "after", kept=("before",))
    assert exists(api, "/api/v1/namespaces/before/configmaps/notes")
    assert not exists(api, "/api/v1/namespaces/before/configmaps/settings")
    down(cluster)
    assert not exists(api, "/api/v1/namespaces/after")
    assert exists(api, "/api/v1/namespaces/before/configmaps/notes")
    api.request("DELETE", "/api/v1/namespaces/before")


def test_the_stack_adopts_a_namespace_with_its_claim_and_never_deletes_either(tmp_path, own_state):
    """The circle of a claim that must exist in a namespace that must not: the user makes both, then
    brings the stack up.
    """
    from inferplan.rehearsal.cluster import start

    file = tmp_path / "Pulumi.local.yaml"
    text = STACK.replace(
        "config:\n", "config:\n  inferplan:namespace: theirs\n  inferplan:adoptNamespace: true\n", 1
    )
    file.write_text(text)
    with_cluster = start("local").api()
    with_cluster.request(
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}},
    )
    with_cluster.request("POST", "/api/v1/namespaces/theirs/persistentvolumeclaims", CLAIM)
    done = inferplan(own_state, "up", str(file), "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the stack changes no label of the adopted namespace theirs" in " ".join(
        done.stderr.split()
    )
    labels = with_cluster.request("GET", "/api/v1/namespaces/theirs")["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": "theirs"}
    assert exists(with_cluster, "/apis/apps/v1/namespaces/theirs/deployments/llama-3-8b")
    done = inferplan(own_state, "down", str(file), "--engine", "rehearsal", "--yes")
    assert done.returncode == 0, done.stderr[-3000:]
    assert exists(with_cluster, "/api/v1/namespaces/theirs/persistentvolumeclaims/source")
    assert not exists(with_cluster, "/apis/apps/v1/namespaces/theirs/deployments/llama-3-8b")
    with_cluster.close()


def test_neither_yes_nor_cluster_alone_deletes_a_claim_of_the_user(own_state):
    from inferplan.rehearsal.cluster import start, status

    assert inferplan(own_state, "up", "local", "--engine", "rehearsal").returncode == 0
    client = start("local").api()
    client.request("POST", "/api/v1/namespaces/inference/persistentvolumeclaims", CLAIM)
    for options in (("--yes",), ("--cluster",)):
        done = inferplan(own_state, "down", "local", "--engine", "rehearsal", *options)
        assert done.returncode == 1, (options, done.stderr[-2000:])
        assert "PersistentVolumeClaim source" in done.stderr
        assert exists(client, "/api/v1/namespaces/inference/persistentvolumeclaims/source")
        assert exists(client, "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")
    done = inferplan(own_state, "down", "local", "--engine", "rehearsal", "--keep-namespace")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "are left" not in done.stderr
    assert exists(client, "/api/v1/namespaces/inference/persistentvolumeclaims/source")
    assert not exists(client, "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")
    client.close()
    assert (
        inferplan(
            own_state, "down", "local", "--engine", "rehearsal", "--cluster", "--yes"
        ).returncode
        == 0
    )
    assert status("local") == "absent"
