"""A router finds the ready pods of its model with the rights of its account, which give it nothing else."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import pytest
import yaml

from inferplan.components.router.router import Router
from inferplan.components.router.spec import RouterSpec
from tests.dataplane.serving.environment import Unavailable, environment
from tests.dataplane.serving.openai_double import OpenAiDouble
from tests.dataplane.serving.router_stand import routed, router
from tests.patience import PATIENCE_SECONDS
from tests.recorder import declare

pytestmark = pytest.mark.cluster
NAMESPACE, KEY = "inference-router", "sk-server"
RIGHTS = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
}
POD = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def api(cluster):
    with contextlib.closing(cluster.api()) as api:
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield api
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


@pytest.fixture(scope="module")
def kubeconfig(api, cluster, tmp_path_factory):
    """A kubeconfig with a token of the router's account, after its objects were applied."""
    model = replace(routed([KEY]), namespace=NAMESPACE)
    made = declare(lambda: Router(RouterSpec(), model), preview=False)
    for each in made.registrations:
        if (kind := each.type.rpartition(":")[2]) in RIGHTS:
            api.request("POST", RIGHTS[kind], each.inputs)
    token = api.request(
        "POST",
        f"{RIGHTS['ServiceAccount']}/chat-router/token",
        {"spec": {"expirationSeconds": 3600}},
    )["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path = tmp_path_factory.mktemp("router") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def add_pod(api, name: str, labels: dict[str, str]) -> None:
    container = {"name": "server", "image": "registry.k8s.io/pause:3.10.1"}
    # No scheduler takes it, so its status is the one that is written here.
    spec = {"containers": [container], "schedulerName": "none"}
    api.request("POST", POD, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
    api.request(
        "PATCH", f"{POD}/{name}/status", {"status": status}, media="application/merge-patch+json"
    )


def await_status(running, wanted: int) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while running.status("/readiness") != wanted:
        assert running.process.poll() is None, running.log.read_text()
        assert time.monotonic() < ends, running.log.read_text()[-3000:]
        time.sleep(0.1)  # a probe has to be asked; nobody tells


def test_it_serves_once_a_pod_of_the_model_is_ready_and_stops_when_it_is_gone(
    api, kubeconfig, tmp_path
):
    try:
        packages = environment("router")
    except Unavailable as reason:
        pytest.skip(str(reason))
    double = OpenAiDouble(KEY)
    finding = (kubeconfig, NAMESPACE)
    try:
        add_pod(api, "other", {"name": "other"})
        with router(packages, tmp_path, [double.port], KEY, finding=finding) as running:
            while running.status("/liveness") != 200:
                assert running.process.poll() is None, running.log.read_text()
            assert running.status("/readiness") == 503
            add_pod(api, "chat-1", {"name": "chat"})
            await_status(running, 200)
            assert running.known(KEY) == 1
            api.request("DELETE", f"{POD}/chat-1", query={"gracePeriodSeconds": "0"})
            await_status(running, 503)
    finally:
        double.stop()


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        *((verb, "pods", True) for verb in ("get", "list", "watch")),
        *((verb, "pods", False) for verb in ("create", "delete", "patch")),
        *(("get", each, False) for each in ("secrets", "configmaps", "services")),
    ],
)
def test_its_account_reads_pods_and_nothing_else(api, kubeconfig, verb, resource, allowed):  # noqa: ARG001 - the objects are applied
    who = f"system:serviceaccount:{NAMESPACE}:chat-router"
    asked = {"namespace": NAMESPACE, "verb": verb, "resource": resource}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    review = {"spec": {"user": who, "resourceAttributes": asked}}
    assert api.request("POST", path, review)["status"]["allowed"] is allowed
    other = {**asked, "namespace": "kube-system"}
    review = {"spec": {"user": who, "resourceAttributes": other}}
    assert api.request("POST", path, review)["status"]["allowed"] is False
