"""Small rules: readiness, durations, rejections of the API server, stubs of cloud resources."""

import copy

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.kube.api import ApiError
from inferplan.kube.durations import seconds_of, spelled
from inferplan.pulumi_engine.providers.aws import realize
from inferplan.pulumi_engine.values import UNKNOWN, Secret, from_wire, mark_secrets, reveal, to_wire
from inferplan.rehearsal.wait.readiness import rule_for
from inferplan.rehearsal.wait.reasons import is_immutable, rejection
from inferplan.rehearsal.wait.timeouts import limit_of
from inferplan.rehearsal.wait.waiter import propagation_of
from tests.recorder import declare

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**50), 2**50)
    | st.text(st.characters(blacklist_categories=["Cs"]))
    | st.just(UNKNOWN),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(blacklist_categories=["Cs"])), inner)
        | inner.map(Secret)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", min_size=1), VALUES))
def test_properties_keep_their_marks_on_the_wire(properties):
    assert from_wire(to_wire(properties)) == properties


@pytest.mark.slow
@given(st.dictionaries(st.text("abc", min_size=1), VALUES))
def test_secret_inputs_are_secret_outputs(properties):
    assert reveal(mark_secrets(reveal(properties), properties)) == reveal(properties)
    secrets = {key for key, value in properties.items() if isinstance(value, Secret)}
    assert {
        key
        for key, value in mark_secrets(reveal(properties), properties).items()
        if isinstance(value, Secret)
    } == secrets


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20m", 1200), ("1h30m", 5400), ("90s", 90), ("1.5s", 1.5), ("250ms", 0.25)],
)
def test_durations_are_read_as_go_writes_them(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "20 m", "m", "1h x", "-5s"])
def test_a_malformed_duration_is_rejected(text):
    with pytest.raises(ValueError, match="not a duration"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.04, "3.0 s"), (45, "45 s"), (725, "12 min 5 s"), (3780, "1 h 3 min"), (7200, "2 h")],
)
def test_seconds_are_written_with_readable_units(seconds, text):
    assert spelled(seconds) == text


DEPLOYED = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "generation": 2},
    "spec": {"replicas": 2},
    "status": {
        "observedGeneration": 2,
        "replicas": 2,
        "updatedReplicas": 2,
        "availableReplicas": 2,
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            {"type": "Available", "status": "True"},
        ],
    },
}


def readiness(live, **status):
    live = copy.deepcopy(live)
    live.setdefault("status", {}).update(status)
    rule = rule_for(live)
    assert rule is not None
    return rule(live)


def test_a_deployment_is_ready_when_the_new_version_is_available_everywhere():
    assert readiness(DEPLOYED).ready


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"observedGeneration": 1}, "the Deployment controller has not seen it yet"),
        ({"availableReplicas": 1, "unavailableReplicas": 1}, "1 of 2 pods are available"),
        ({"updatedReplicas": 1}, "rolling out: 1 of 2 new pods are created, 1 old one remains"),
        (
            {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3},
            "1 surplus pods remain, 2 are wanted",
        ),
        ({"conditions": []}, "2 of 2 pods are available"),
    ],
)
def test_unfinished_deployment_reports_what_is_missing(status, why):
    found = readiness(DEPLOYED, **status)
    assert (found.ready, found.failed, found.why) == (False, False, why)


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


def test_a_fake_node_is_ready_when_pods_may_come():
    assert readiness(NODE).ready
    assert readiness(NODE, conditions=[]).why == "the node is not ready yet"
    tainted = {
        **NODE,
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    }
    assert readiness(tainted).why == "the node is still tainted node.kubernetes.io/not-ready"
    cordoned = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }
    assert readiness({**NODE, "spec": cordoned}).ready


def test_a_node_that_is_not_fake_is_not_awaited():
    assert readiness({**NODE, "metadata": {"name": "n"}}, conditions=[]).ready


def test_a_job_that_failed_is_not_waited_for():
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit",
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {},
        "status": {"conditions": [failed]},
    }
    found = readiness(job)
    assert found.failed
    assert (
        found.why
        == "the Job failed: BackoffLimitExceeded: Job has reached the specified backoff limit"
    )


@pytest.mark.parametrize(
    ("annotations", "ready"),
    [
        ({"pulumi.com/waitFor": "condition=Ready"}, True),
        ({"pulumi.com/waitFor": "condition=Ready=False"}, False),
        ({"pulumi.com/waitFor": "jsonpath={.status.phase}=Up"}, True),
        ({"pulumi.com/waitFor": "jsonpath={.status.phase}=Down"}, False),
        ({"pulumi.com/waitFor": "jsonpath={.status.nothing}"}, False),
        ({"pulumi.com/waitFor": '["condition=Ready", "jsonpath={.status.phase}"]'}, True),
    ],
)
def test_wait_for_annotation_is_applied(annotations, ready):
    live = {
        "apiVersion": "x.dev/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "annotations": annotations},
    }
    assert (
        readiness(live, phase="Up", conditions=[{"type": "Ready", "status": "True"}]).ready is ready
    )


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}, False),
        ({"conditions": [{"type": "Ready", "status": "True"}], "observedGeneration": 1}, False),
        (
            {
                "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}],
                "observedGeneration": 1,
            },
            True,
        ),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, True),
    ],
)
def test_condition_of_an_older_generation_is_ignored(status, ready):
    metadata = {
        "name": "t",
        "generation": 2,
        "annotations": {"pulumi.com/waitFor": "condition=Ready"},
    }
    assert (
        readiness({"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": metadata}, **status).ready
        is ready
    )


def test_a_malformed_wait_is_rejected():
    with pytest.raises(ValueError, match=r"pulumi\.com/waitFor"):
        rule_for(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"annotations": {"pulumi.com/waitFor": "jsonpath={.a[0]}"}},
            }
        )


@pytest.mark.parametrize("annotations", [{}, {"pulumi.com/skipAwait": "true"}])
def test_an_object_without_a_wait_has_no_rule(annotations):
    kind = "Deployment" if annotations else "ConfigMap"
    assert (
        rule_for({"apiVersion": "apps/v1", "kind": kind, "metadata": {"annotations": annotations}})
        is None
    )


@pytest.mark.parametrize(
    ("message", "immutable"),
    [
        ('Job.batch "j" is invalid: spec.template: Invalid value: ...: field is immutable', True),
        (
            (
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are"
                " forbidden"
            ),
            True,
        ),
        ("spec.replicas: Invalid value: -1: must be greater than or equal to 0", False),
    ],
)
def test_an_immutable_field_differs_from_an_invalid_one(message, immutable):
    assert is_immutable(ApiError(422, "Invalid", message, {})) is immutable


def test_a_conflict_with_another_owner_says_how_to_take_the_field():
    failed = rejection(ApiError(409, "Conflict", 'conflict with "kubectl": .spec.replicas', {}))
    assert "kubectl" in failed.message
    assert "pulumi.com/patchForce" in failed.remedy


def test_a_webhook_that_does_not_answer_is_not_reported_as_an_error_of_the_declaration():
    failed = rejection(
        ApiError(
            500,
            "InternalError",
            'failed calling webhook "mdeployment.kb.io": connection refused',
            {},
        )
    )
    assert "mdeployment.kb.io" in failed.message
    assert "the webhook's server runs" in failed.remedy


def test_a_cloud_resource_gets_a_constant_id_and_arn_without_an_account():
    class Bucket(pulumi.CustomResource):
        def __init__(self):
            super().__init__("aws:s3/bucket:Bucket", "weights", {"bucket": "acme-weights"})

    (registration,) = declare(Bucket)
    first, second = realize(registration), realize(registration)
    assert first == second
    id_, outputs = first
    assert id_ == "acme-weights"
    assert outputs["bucket"] == "acme-weights"
    assert outputs["arn"].startswith("arn:aws:s3:::")


@pytest.mark.parametrize(
    ("duration", "annotated", "seconds"),
    [("90s", "20", 90), (None, "20", 20), (None, "", 600), (None, "soon", 600)],
)
def test_a_custom_timeout_wins_over_the_annotation(duration, annotated, seconds):
    assert limit_of(duration, annotated) == seconds


@pytest.mark.parametrize(
    ("kind", "policy", "propagation"),
    [
        ("Deployment", "", "Foreground"),
        ("ConfigMap", "", "Background"),
        ("Deployment", "orphan", "Orphan"),
        ("Deployment", "Background", "Background"),
    ],
)
def test_the_annotation_of_the_provider_sets_how_children_are_deleted(kind, policy, propagation):
    version = "apps/v1" if kind == "Deployment" else "v1"
    live = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"annotations": {"pulumi.com/deletionPropagationPolicy": policy}},
    }
    assert propagation_of(live, childless=False) == propagation


def test_equal_texts_of_resources_are_one_object():
    text = "".join(["a program", " of many lines"])
    one, other = (from_wire(to_wire({"data": {"run.py": text}})) for _ in range(2))
    assert one["data"]["run.py"] is other["data"]["run.py"]
    outputs = mark_secrets({"data": {"run.py": f"{text}"[:-1] + "s"}}, one)
    assert outputs["data"]["run.py"] is one["data"]["run.py"]
