"""The messages while an object is not ready, and when it never will be."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace, ResourceQuota, Secret, Service
from pulumi_kubernetes.networking.v1 import Ingress

from inferplan.errors import BusyError
from inferplan.rehearsal.apply.objects import Objects
from inferplan.rehearsal.apply.run import apply, down
from inferplan.rehearsal.wait import waiter
from inferplan.rehearsal.wait.object_events import ApplyFailed, Ready, Waiting
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS
from tests.rehearsal.engine_programs import (
    PROJECT,
    Node,
    api_of,
    exists,
    model,
    names,
    platform,
    pod,
)

pytestmark = pytest.mark.cluster


@pytest.fixture
def up(cluster, request):
    """Applies programs as one stack of this test, and takes them down afterwards."""
    stack = request.node.name.replace("_", "-")[:60]
    yield lambda program, **more: apply(program, cluster, project=PROJECT, stack=stack, **more)
    down(cluster)


def within(seconds):
    return pulumi.ResourceOptions(
        custom_timeouts=pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s")
    )


def workload(kind, name, accelerators, pool, seconds=1, namespace="default"):
    template = {"metadata": {"labels": {"w": name}}, "spec": pod(accelerators, pool)}
    spec = {"template": template}
    if kind is Job:
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec |= {"replicas": 1, "selector": {"matchLabels": {"w": name}}}
    return kind(
        name, metadata={"name": name, "namespace": namespace}, spec=spec, opts=within(seconds)
    )


def test_unschedulable_pod_is_reported_with_message_of_scheduler(up, patient):
    def program():
        Node("small-node", accelerators=2)
        workload(Deployment, "big", 4, "small-node")

    events = []
    with pytest.raises(ApplyFailed) as failed:
        up(program, listener=patient("Insufficient nvidia.com/gpu", events.append))
    (failure,) = failed.value.failures
    assert str(failure.target) == "Deployment default/big"
    assert failure.message.startswith("not ready after 1.5 s: ")
    assert "nodes are available" in failure.message
    assert "Insufficient nvidia.com/gpu" in failure.message
    assert failure.remedy.startswith(
        "request less, or enlarge its pool or quota; inspect it with `kubectl --kubeconfig "
    )
    reasons = [each.reason for each in events if isinstance(each, Waiting)]
    assert any("Insufficient nvidia.com/gpu" in reason for reason in reasons)
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("kind", [Deployment, *in_full(Job)])
def test_wait_for_unschedulable_pod_ends_when_cluster_is_idle(up, kind, monkeypatch):
    monkeypatch.setattr(waiter, "IDLE_SECONDS", 3.0)

    def program(*, filled):
        Node("still-node", accelerators=2)
        if filled:
            workload(kind, "still", 4, "still-node", seconds=3600)

    # The node comes first, so that the scheduler has no other reason that stands still.
    up(lambda: program(filled=False))
    with pytest.raises(ApplyFailed) as failed:
        up(lambda: program(filled=True))
    (failure,) = failed.value.failures
    assert "Insufficient nvidia.com/gpu" in failure.message
    assert failure.message.endswith("; nothing has changed for 3.0 s, and no autoscaler runs here")
    assert failure.remedy.startswith("request less, or enlarge its pool or quota")


@pytest.mark.parametrize("kind", [Deployment, *in_full(Job)])
def test_quota_that_rejects_pods_is_reported(up, kind, patient):
    def program():
        place = Namespace("n", metadata={"name": "quota"}).metadata.name
        quota = ResourceQuota(
            "q",
            metadata={"name": "gpus", "namespace": place},
            spec={"hard": {"requests.nvidia.com/gpu": "2"}},
        )
        Node("quota-node")
        workload(kind, "greedy", 4, "quota-node", namespace=quota.metadata.namespace)

    with pytest.raises(ApplyFailed) as failed:
        up(program, listener=patient("exceeded quota"))
    (failure,) = failed.value.failures
    assert "exceeded quota: gpus, requested: requests.nvidia.com/gpu=4" in failure.message


def test_failed_job_is_reported_at_once_with_its_reason(up):
    def program():
        Node("fail-node")
        template = {
            "spec": {**pod(0, "fail-node"), "restartPolicy": "Never", "activeDeadlineSeconds": 1}
        }
        template["spec"]["nodeSelector"] = {"pool": "nowhere"}
        spec: Any = {"activeDeadlineSeconds": 1, "template": template}
        Job("j", metadata={"name": "doomed"}, spec=spec)

    with pytest.raises(ApplyFailed) as failed:
        up(program)
    (failure,) = failed.value.failures
    assert failure.message.startswith(
        "the Job failed: DeadlineExceeded: Job was active longer than specified deadline"
    )


def test_resources_that_do_not_depend_on_a_failure_are_applied(cluster, up):
    def program():
        Node("branch-node", accelerators=1)
        bad = workload(Deployment, "bad", 4, "branch-node")
        dependent = ConfigMap(
            "dependent", metadata={"name": "dependent"}, data={"uid": bad.metadata.uid}
        )
        ConfigMap(
            "grandchild",
            metadata={"name": "grandchild"},
            opts=pulumi.ResourceOptions(depends_on=[dependent]),
        )
        model("good", "default", pool="branch-node")
        Secret(
            "worse",
            metadata={"name": "worse"},
            type="kubernetes.io/tls",
            string_data={"tls.key": "hush-hush"},
        )

    with pytest.raises(ApplyFailed) as failed:
        up(program)
    assert names(each.target for each in failed.value.failures) == [
        "Deployment bad",
        "Secret worse",
    ]
    assert names(failed.value.skipped) == ["ConfigMap dependent", "ConfigMap grandchild"]
    assert exists(cluster, "/apis/apps/v1/namespaces/default/deployments/good")
    assert not exists(cluster, "/api/v1/namespaces/default/configmaps/dependent")
    text = str(failed.value)
    assert "Deployment default/bad: not ready after" in text
    assert "ConfigMap default/grandchild: not applied" in text
    assert "hush-hush" not in text


def test_next_run_after_a_fix_applies_the_remaining_objects(up):
    def program(accelerators, seconds=1):
        Node("mend-node", accelerators=accelerators)
        server = workload(Deployment, "server", 4, "mend-node", seconds)
        ConfigMap("after", metadata={"name": "after"}, data={"uid": server.metadata.uid})

    with pytest.raises(ApplyFailed):
        up(lambda: program(1))
    outcome = up(lambda: program(8, PATIENCE_SECONDS))
    assert names(outcome.created) == ["ConfigMap after"]
    assert names(outcome.changed) == ["Node mend-node"]


def test_failed_run_deletes_nothing(cluster, up):
    up(lambda: ConfigMap("c", metadata={"name": "spared"}, data={}))
    with pytest.raises(ApplyFailed):
        up(
            lambda: Secret(
                "s", metadata={"name": "bad"}, type="kubernetes.io/tls", string_data={"x": "y"}
            )
        )
    assert exists(cluster, "/api/v1/namespaces/default/configmaps/spared")


def test_service_waits_for_its_pods_and_reports_missing_pods_and_address(up):
    def program():
        Service("none", metadata={"name": "none"}, spec={"ports": [{"port": 1}]})
        Service(
            "empty",
            metadata={"name": "empty"},
            spec={"selector": {"no": "pods"}, "ports": [{"port": 1}]},
        )
        Service(
            "cloud",
            metadata={"name": "cloud"},
            spec={"type": "LoadBalancer", "ports": [{"port": 1}]},
        )
        Ingress(
            "door",
            metadata={"name": "door"},
            spec={"default_backend": {"service": {"name": "none", "port": {"number": 1}}}},
        )

    events = []
    up(program, listener=events.append)
    notes = {each.target.name: each.note for each in events if isinstance(each, Ready)}
    assert notes == {
        "none": "",
        "empty": "",
        "cloud": "did not wait for its address: a simulated cluster has no load balancer",
        "door": "did not wait for its address: a simulated cluster has no ingress controller",
    }


def test_object_with_skip_await_is_not_awaited(up):
    def program():
        metadata = {"name": "hurry", "annotations": {"pulumi.com/skipAwait": "true"}}
        template = {"metadata": {"labels": {"w": "h"}}, "spec": pod(1, "nowhere")}
        spec: Any = {"selector": {"matchLabels": {"w": "h"}}, "template": template}
        Deployment("d", metadata=metadata, spec=spec)

    assert names(up(program).created) == ["Deployment hurry"]


def test_conflict_over_a_field_names_annotation_that_takes_it_over(cluster, up):
    up(lambda: ConfigMap("c", metadata={"name": "contested"}, data={"x": "ours"}))
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "contested"},
        "data": {"x": "theirs"},
    }
    path = "/api/v1/namespaces/default/configmaps/contested"
    api_of(cluster).apply(path, theirs, manager="somebody", force=True)

    def program(force):
        metadata = {"name": "contested", "annotations": {"pulumi.com/patchForce": force}}
        ConfigMap("c", metadata=metadata, data={"x": "ours"})

    with pytest.raises(ApplyFailed, match=r'somebody.*(\n.*)*pulumi\.com/patchForce: "true"'):
        up(lambda: program("false"))
    assert names(up(lambda: program("true")).changed) == ["ConfigMap contested"]


def test_second_of_two_concurrent_runs_stops_with_an_error(cluster, up):
    started, release = threading.Event(), threading.Event()

    def slow(_event):
        started.set()
        release.wait(PATIENCE_SECONDS)

    first = threading.Thread(
        target=lambda: up(functools.partial(platform, "two", models=1), listener=slow)
    )
    first.start()
    try:
        assert started.wait(PATIENCE_SECONDS)
        with pytest.raises(BusyError, match=r"is changing this cluster since \d\d:\d\d:\d\d"):
            up(lambda: None)
        with pytest.raises(BusyError):
            down(cluster)
    finally:
        release.set()
        first.join()
    assert exists(cluster, "/apis/apps/v1/namespaces/two/deployments/model-0")


def test_concurrent_change_of_another_writer_is_not_reported_as_ours(cluster, up, monkeypatch):
    up(lambda: ConfigMap("c", metadata={"name": "beside"}, data={"x": "ours"}))
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "beside", "labels": {"seen": "yes"}},
        "data": {"y": "theirs"},
    }
    look = Objects.get

    def held_up(self, resource, key):
        found = look(self, resource, key)
        self.api.apply(resource.path(key.namespace, key.name), theirs, manager="somebody")
        return found

    monkeypatch.setattr(Objects, "get", held_up)
    assert (
        up(lambda: ConfigMap("c", metadata={"name": "beside"}, data={"x": "ours"})).total_changes
        == 0
    )
    live = api_of(cluster).request("GET", "/api/v1/namespaces/default/configmaps/beside")
    assert live["data"] == {"x": "ours", "y": "theirs"}
