"""The scaler that a range of replicas becomes, and what stays the scaler's own."""

from __future__ import annotations

import re

import pytest
import yaml
from pydantic import ValidationError

from tests.unit.serving.models import declared, vllm
from tests.unit.serving.test_ray_serve import ray
from tests.unit.serving.test_triton import triton

SCALED = "kubernetes:keda.sh/v1alpha1:ScaledObject"
HPA = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
PROMETHEUS = "http://prometheus.monitoring.svc:9090"


def scaled(**replicas):
    return declared(vllm(replicas=replicas), prometheus=PROMETHEUS)


def spec_of(recording, kind=SCALED):
    return recording.one(kind).inputs["spec"]


def triggers(recording):
    return {each["name"]: each for each in spec_of(recording)["triggers"]}


def test_vllm_scales_on_waiting_requests_and_the_kv_cache_by_default():
    recording = scaled(min=1, max=4)
    spec = spec_of(recording)
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 4)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    waiting, cache = (
        triggers(recording)["waiting-requests"],
        triggers(recording)["kv-cache-percent"],
    )
    assert waiting["metadata"]["threshold"] == "5"
    assert waiting["metadata"]["serverAddress"] == PROMETHEUS
    assert waiting["metadata"]["query"].startswith(
        'sum(vllm:num_requests_waiting{namespace="inference",pod=~"chat-'
    )
    assert cache["metadata"]["threshold"] == "80"
    assert all(
        isinstance(value, str) for each in (waiting, cache) for value in each["metadata"].values()
    )


def test_the_pods_of_a_query_are_the_models_own():
    query = triggers(scaled(min=1, max=2))["waiting-requests"]["metadata"]["query"]
    pods = re.compile(query.partition('pod=~"')[2].partition('"')[0])
    assert pods.fullmatch("chat-7d9c5b8f6d-x2x4z")
    assert not pods.fullmatch("chat-large-7d9c5b8f6d-x2x4z")
    assert not pods.fullmatch("chat-group-0")


def test_the_scaler_owns_the_number_that_the_deployment_starts_with():
    deployment = scaled(min=2, max=4).one(DEPLOYMENT)
    assert deployment.inputs["spec"]["replicas"] == 2
    assert deployment.options.ignore_changes == ("spec.replicas",)
    assert declared(vllm(replicas=2)).one(DEPLOYMENT).options.ignore_changes == ()


def test_a_number_has_no_scaler():
    assert not [each for each in declared(vllm(replicas=2)) if each.type in (SCALED, HPA)]


def test_cpu_is_a_plain_autoscaler_without_keda():
    recording = scaled(min=1, max=3, on={"cpu": 70})
    spec = spec_of(recording, HPA)
    assert spec["metrics"] == [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 70},
            },
        }
    ]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 3)
    assert not [each for each in recording if each.type == SCALED]


def test_cooldown_and_windows_follow_the_time_that_a_replica_needs_to_load():
    # 16Gi at 200 MiB/s are 82 s, and NVIDIA's warm-up is 300 s.
    spec = spec_of(scaled(min=0, max=4))
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert spec["cooldownPeriod"] == spec["initialCooldownPeriod"] == 382
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 382
    assert {each["periodSeconds"] for each in behavior["scaleUp"]["policies"]} == {382}
    assert spec_of(scaled(min=1, max=4, cooldownSeconds=60))["cooldownPeriod"] == 60


def test_requests_at_the_gateway_start_a_model_without_replicas():
    recording = scaled(min=0, max=4)
    wake = triggers(recording)["gateway-requests"]["metadata"]
    assert wake["threshold"] == "1"
    assert 'inferplan_gateway_requests_total{namespace="inference",model="chat"}' in wake["query"]
    # A lost metric of busy replicas must not count as no load.
    assert {each["metadata"]["ignoreNullValues"] for each in triggers(recording).values()} == {
        "false"
    }
    assert "gateway-requests" not in triggers(scaled(min=1, max=4))


def test_a_group_of_pods_is_scaled_as_a_whole():
    model = vllm(
        replicas={"min": 1, "max": 2}, tensorParallelSize=8, pipelineParallelSize=2, nnodes=2
    )
    recording = declared(model, prometheus=PROMETHEUS)
    assert spec_of(recording)["scaleTargetRef"] == {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "name": "chat-group",
    }
    assert (
        'pod=~"chat-group-[0-9]+"' in triggers(recording)["waiting-requests"]["metadata"]["query"]
    )
    assert recording.one(
        "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    ).options.ignore_changes == ("spec.replicas",)


@pytest.mark.parametrize(("most", "budgets"), [(1, 0), (2, 1)])
def test_a_disruption_budget_follows_the_maximum(most, budgets):
    found = [each for each in scaled(min=1, max=most) if each.type.endswith(":PodDisruptionBudget")]
    assert len(found) == budgets


def test_the_rollout_may_take_as_long_as_all_replicas_need():
    few, many = (
        scaled(min=1, max=most).one(DEPLOYMENT).options.custom_timeouts.update for most in (1, 4)
    )
    assert int(str(many)[:-1]) == 4 * int(str(few)[:-1])


def ray_scaled(**replicas):
    fields = {
        "replicas": replicas,
        "accelerators": 2,
        "applications": {"chat": {"kind": "llm", "tensorParallelSize": 1, "routePrefix": "/"}},
    }
    return declared(ray(**fields))


def test_ray_serve_scales_itself_and_no_other_scaler_points_at_it():
    recording = ray_scaled(min=1, max=3, on={"ongoingRequests": 4}, cooldownSeconds=120)
    service = recording.one("kubernetes:ray.io/v1:RayService").inputs["spec"]
    cluster = service["rayClusterConfig"]
    [workers] = cluster["workerGroupSpecs"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert [
        workers[key] for key in ("replicas", "minReplicas", "maxReplicas", "idleTimeoutSeconds")
    ] == [1, 1, 3, 120]
    [app] = yaml.safe_load(service["serveConfigV2"])["applications"]
    [config] = app["args"]["llm_configs"]
    # Two replicas of one accelerator on each worker of two.
    assert config["deployment_config"]["autoscaling_config"] == {
        "min_replicas": 2,
        "max_replicas": 6,
        "target_ongoing_requests": 4.0,
        "downscale_delay_s": 120.0,
    }
    assert not [each for each in recording if each.type in (SCALED, HPA)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"replicas": {"min": 0, "max": 2}},
            "Ray's proxies, which take the requests, run on the workers. Use min: 1",
        ),
        ({"replicas": {"min": 1, "max": 2, "on": {"cpu": 70}}}, "Use one of ongoingRequests"),
        (
            {"replicas": {"min": 1, "max": 2}, "workerAutoscaling": {"maxReplicas": 2}},
            "Remove workerAutoscaling",
        ),
    ],
)
def test_what_ray_cannot_scale_is_an_error_with_a_remedy(fields, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        ray(**fields)


def test_triton_follows_its_queue_unless_vllm_queues_behind_it():
    weights = {"store": "w", "path": "llama"}
    text = triton(weights=weights, replicas={"min": 1, "max": 2})
    engine = triton(
        weights=weights, replicas={"min": 1, "max": 2}, repository={"llm": {"kind": "vllm"}}
    )
    assert (list(text.scaling_signals), list(engine.scaling_signals)) == (
        ["queue_milliseconds"],
        ["requests_in_flight"],
    )
