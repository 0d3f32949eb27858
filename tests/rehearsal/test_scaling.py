"""What scalers are declared as, on a real API server with KEDA's own definitions: every field is
known, and ownership holds.
"""

from __future__ import annotations

import json

import pytest

from inferplan.progress import silent
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.cluster.definitions import installer
from tests.rehearsal.commands import inferplan, up, variant
from tests.rehearsal.conftest import local_api
from tests.unit.serving.models import declared, vllm

pytestmark = pytest.mark.cluster

RANGES = (
    {"min": 1, "max": 4},
    {"min": 0, "max": 2, "on": {"requestsInFlight": 8}, "cooldownSeconds": 7200},
    {"min": 1, "max": 3, "on": {"cpu": 70}},
)


@pytest.fixture(scope="module")
def api(cluster):
    assert installer(cluster, silent)("keda.sh")
    client = cluster.api()
    yield client
    client.close()


@pytest.fixture
def local(local_state, monkeypatch):
    yield from local_api(local_state, monkeypatch)


@pytest.mark.parametrize("replicas", RANGES, ids=["signals", "zero", "cpu"])
def test_api_server_accepts_all_fields_of_a_scaler(api, replicas):
    kinds = ("ScaledObject", "HorizontalPodAutoscaler")
    recording = declared(
        vllm(replicas=replicas), prometheus="http://prometheus.monitoring.svc:9090"
    )
    [scaler] = [each.inputs for each in recording if each.type.rpartition(":")[2] in kinds]
    body = reveal({**scaler, "metadata": {**scaler["metadata"], "namespace": "default"}})
    path = api.resource(body["apiVersion"], body["kind"]).path("default")
    made = api.request("POST", path, body, query={"dryRun": "All", "fieldValidation": "Strict"})
    assert made["spec"].items() >= body["spec"].items()


@pytest.mark.full
def test_update_keeps_replica_count_of_the_scaler(local_state, local, tmp_path):
    path = "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b"
    scaled = variant(tmp_path, "replicas: 2", "replicas: {min: 1, max: 3, on: {cpu: 70}}")
    up(local_state, scaled)
    assert local.request("GET", path)["spec"]["replicas"] == 2
    local.request(
        "PATCH", f"{path}/scale", {"spec": {"replicas": 3}}, media="application/merge-patch+json"
    )
    up(local_state, scaled)
    assert local.request("GET", path)["spec"]["replicas"] == 3
    status = json.loads(inferplan(local_state, "status", str(scaled), "--json").stdout)
    assert status["differences"] == []
