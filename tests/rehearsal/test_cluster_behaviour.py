"""The control plane is real: admission, quota, scheduling and controllers decide, and only the
kubelets are missing.
"""

from __future__ import annotations

import http.client
import time
import uuid
from contextlib import closing
from decimal import ROUND_UP, Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplan.kube.api import ApiError
from inferplan.kube.quantity import amount, canonical
from inferplan.rehearsal.cluster.processes import running
from tests.patience import PATIENCE_SECONDS
from tests.unit.kube.quantities import NOT_QUANTITIES, QUANTITIES, texts

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def api(cluster):
    made = cluster.api()
    yield made
    made.close()


@pytest.fixture
def spaces(api):
    """A function that makes a namespace with the given labels, in which pods can be made."""
    made = []

    def make(**labels):
        name = f"behaviour-{uuid.uuid4().hex[:8]}"
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        made.append(name)
        # A controller makes it, and admission waits a second for it at most.
        until(api, f"/api/v1/namespaces/{name}/serviceaccounts", "default", lambda _: True)
        return name

    yield make
    for name in made:
        api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespace(spaces):
    return spaces()


@pytest.fixture
def nodes(api):
    """A function that makes a node, fake by default, with a label of its own to select it by."""
    made = []

    def make(capacity, *, fake=True):
        name = f"node-{uuid.uuid4().hex[:8]}"
        annotations = {"kwok.x-k8s.io/node": "fake"} if fake else {}
        metadata = {"name": name, "annotations": annotations, "labels": {"only": name}}
        api.request(
            "POST",
            "/api/v1/nodes",
            {"metadata": metadata, "status": {"capacity": capacity, "allocatable": capacity}},
        )
        made.append(name)
        return name

    yield make
    for name in made:
        api.request("DELETE", f"/api/v1/nodes/{name}")


def pod_spec(node, resources=None, **rest):
    container = {
        "name": "main",
        "image": "example/none:1",
        "resources": {"limits": resources or {}},
    }
    return {
        "nodeSelector": {"only": node},
        "containers": [container],
        "automountServiceAccountToken": False,
        **rest,
    }


def create(api, namespace, plural, name, spec):
    """Create an object in a namespace; `plural` may carry its API's path."""
    base = plural if "/" in plural else f"/api/v1/{plural}"
    root, _, kind = base.rpartition("/")
    return api.request(
        "POST", f"{root}/namespaces/{namespace}/{kind}", {"metadata": {"name": name}, "spec": spec}
    )


def until(api, path, name, test):
    """The first state of the object that passes the test."""
    watch = api.watch(
        path, {"timeoutSeconds": str(PATIENCE_SECONDS), "fieldSelector": f"metadata.name={name}"}
    )
    try:
        for kind, thing in watch:
            if kind in {"ADDED", "MODIFIED"} and test(thing):
                return thing
    finally:
        watch.close()
    raise AssertionError(f"nothing passed within {PATIENCE_SECONDS} s")


def refused_on_trial(api, path, body):
    try:
        api.request("POST", path, body, query={"dryRun": "All"})
    except ApiError as refusal:
        return refusal.message
    return ""


def condition(thing, kind):
    return next(
        (each for each in thing["status"].get("conditions", ()) if each["type"] == kind), {}
    )


def is_true(kind):
    return lambda thing: condition(thing, kind).get("status") == "True"


SMALL = {"cpu": "4", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "2"}


def test_deployment_with_bound_volume_becomes_available_on_fake_node(api, namespace, nodes):
    volume = f"volume-{namespace}"
    size = {"storage": "1Ti"}
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    nfs = {"server": "nfs.example", "path": "/models"}
    api.request(
        "POST",
        "/api/v1/persistentvolumes",
        {"metadata": {"name": volume}, "spec": {**shared, "capacity": size, "nfs": nfs}},
    )
    create(
        api,
        namespace,
        "persistentvolumeclaims",
        "models",
        {**shared, "volumeName": volume, "resources": {"requests": size}},
    )
    labels = {"app": "served"}
    pod = pod_spec(
        nodes(SMALL),
        {"nvidia.com/gpu": 1},
        volumes=[{"name": "m", "persistentVolumeClaim": {"claimName": "models"}}],
    )
    template = {"metadata": {"labels": labels}, "spec": pod}
    create(
        api,
        namespace,
        "/apis/apps/v1/deployments",
        "served",
        {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    )

    ready = until(
        api, f"/apis/apps/v1/namespaces/{namespace}/deployments", "served", is_true("Available")
    )

    assert ready["status"]["availableReplicas"] == 2
    assert api.request("GET", f"/api/v1/persistentvolumes/{volume}")["status"]["phase"] == "Bound"
    api.request("DELETE", f"/api/v1/persistentvolumes/{volume}")


def test_a_job_runs_to_completion_on_a_fake_node(api, namespace, nodes):
    create(
        api,
        namespace,
        "/apis/batch/v1/jobs",
        "once",
        {"template": {"spec": pod_spec(nodes(SMALL), restartPolicy="Never")}},
    )

    done = until(api, f"/apis/batch/v1/namespaces/{namespace}/jobs", "once", is_true("Complete"))

    assert done["status"]["succeeded"] == 1


def test_pods_do_not_start_on_nodes_that_are_not_fake(api, namespace, nodes):
    untended, fake = nodes(SMALL, fake=False), nodes(SMALL)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    create(
        api, namespace, "pods", "waits", pod_spec(untended, tolerations=[{"operator": "Exists"}])
    )
    until(api, pods, "waits", is_true("PodScheduled"))
    create(api, namespace, "pods", "runs", pod_spec(fake))
    until(api, pods, "runs", is_true("Ready"))

    waiting = api.request("GET", f"{pods}/waits")
    assert (waiting["spec"]["nodeName"], waiting["status"]["phase"]) == (untended, "Pending")


def test_pod_that_does_not_fit_stays_pending_with_reason_of_scheduler(api, namespace, nodes):
    create(api, namespace, "pods", "large", pod_spec(nodes(SMALL), {"nvidia.com/gpu": 3}))

    def too_small(
        pod,
    ):  # the first refusal may be about the taint that a new node bears until it is ready
        return "Insufficient nvidia.com/gpu" in condition(pod, "PodScheduled").get("message", "")

    pod = until(api, f"/api/v1/namespaces/{namespace}/pods", "large", too_small)

    assert (condition(pod, "PodScheduled")["reason"], pod["status"]["phase"]) == (
        "Unschedulable",
        "Pending",
    )


def test_the_restricted_pod_security_profile_is_enforced(api, spaces, nodes):
    # Labelled from the start: admission has a copy of its own of every namespace, which follows a
    # change a moment later.
    namespace = spaces(**{"pod-security.kubernetes.io/enforce": "restricted"})
    with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest"') as caught:
        create(api, namespace, "pods", "root", pod_spec(nodes(SMALL)))

    assert caught.value.status == 403


def test_a_quota_on_accelerators_is_enforced(api, namespace, nodes):
    create(api, namespace, "resourcequotas", "q", {"hard": {"requests.nvidia.com/gpu": "1"}})
    until(
        api,
        f"/api/v1/namespaces/{namespace}/resourcequotas",
        "q",
        lambda each: bool(each["status"].get("hard")),
    )
    greedy = {"metadata": {"name": "greedy"}, "spec": pod_spec(nodes(SMALL), {"nvidia.com/gpu": 2})}
    # Admission judges by a copy of its own, which follows the quota a moment later and tells
    # nobody: it is asked on trial until then.
    pods, began = f"/api/v1/namespaces/{namespace}/pods", time.monotonic()
    while (said := refused_on_trial(api, pods, greedy)) == "":
        assert time.monotonic() - began < PATIENCE_SECONDS
    assert "exceeded quota" in said
    with pytest.raises(ApiError, match="exceeded quota"):
        api.request("POST", pods, greedy)


def test_priority_classes_and_limit_ranges_set_defaults_of_pods(api, namespace, nodes):
    limit = {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "250m"}}
    create(api, namespace, "limitranges", "defaults", {"limits": [limit]})
    pod = create(
        api,
        namespace,
        "pods",
        "plain",
        pod_spec(nodes(SMALL), priorityClassName="system-cluster-critical"),
    )

    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m"}
    assert pod["spec"]["priority"] == 2_000_000_000


def dry_run(api, amounts):
    """Return what the API server makes of `amounts` as memory of the containers of one pod
    template.
    """
    containers = [
        {"name": f"c{place}", "image": "example/none:1", "resources": {"limits": {"memory": each}}}
        for place, each in enumerate(amounts)
    ]
    template = {
        "metadata": {"name": "quantities"},
        "template": {"spec": {"containers": containers}},
    }
    answer = api.request("POST", "/api/v1/namespaces/default/podtemplates?dryRun=All", template)
    return [
        each["resources"]["limits"]["memory"] for each in answer["template"]["spec"]["containers"]
    ]


def test_the_api_server_reads_quantities_as_we_do(api):
    values, written = (
        [Decimal(value) for _, value, _ in QUANTITIES],
        [each for _, _, each in QUANTITIES],
    )
    answers = dry_run(api, [text for text, _, _ in QUANTITIES])
    assert [amount(each) for each in answers] == [
        value.quantize(Decimal("0.001"), ROUND_UP) for value in values
    ]
    # What we declare comes back as it was declared.
    assert dry_run(api, written) == written


@pytest.mark.parametrize("text", NOT_QUANTITIES)
def test_api_server_rejects_the_quantities_that_we_reject(api, text):
    with pytest.raises(
        ApiError,
        match=r"quantities must match the regular expression|unable to parse quantity's suffix",
    ):
        dry_run(api, [text])


@settings(max_examples=10)
@given(st.lists(texts(), min_size=30, max_size=30))
def test_api_server_reads_generated_quantities_as_we_do(api, several):
    assert [canonical(each) for each in dry_run(api, several)] == [
        canonical(each) for each in several
    ]


def test_kwok_shows_other_users_of_the_machine_no_profile(cluster):
    pid = next(iter(running(cluster.directory)["kwok"]))
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    address = next(each for each in arguments if each.startswith("--server-address="))
    host, _, port = address.partition("=")[2].partition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=PATIENCE_SECONDS)) as asked:
        for path, status in (("/healthz", 200), ("/debug/pprof/", 405), ("/debug/pprof/heap", 405)):
            asked.request("GET", path)
            answer = asked.getresponse()
            answer.read()
            assert (path, answer.status) == (path, status)
