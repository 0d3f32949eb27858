"""What monitoring declares, on a real API server with the definitions of the Prometheus operator
and KEDA: every field is known.
"""

from __future__ import annotations

import pytest

from inferplan.progress import silent
from inferplan.pulumi_engine.values import reveal
from inferplan.rehearsal.cluster.definitions import installer
from tests.unit.monitoring.test_scraping import PROMETHEUS, whole

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def api(cluster):
    assert installer(cluster, silent)("monitoring.coreos.com")
    assert installer(cluster, silent)("keda.sh")
    client = cluster.api()
    yield client
    client.close()


def test_api_server_accepts_all_fields_of_monitoring_objects(api):
    login = {**PROMETHEUS, "login": {"mode": "bearer", "secretName": "prom"}}
    recording = whole(
        prometheus=login,
        scrape={"preheats": True, "exporters": {"keda": "keda"}},
        rules={},
        labels={"release": "stack"},
    )
    groups = ("monitoring.coreos.com", "keda.sh")
    objects = [each.inputs for each in recording if any(group in each.type for group in groups)]
    kinds = {each["kind"] for each in objects}
    assert {"PodMonitor", "PrometheusRule", "TriggerAuthentication", "ScaledObject"} <= kinds
    for each in objects:
        body = reveal({**each, "metadata": {**each["metadata"], "namespace": "default"}})
        path = api.resource(body["apiVersion"], body["kind"]).path("default")
        made = api.request("POST", path, body, query={"dryRun": "All", "fieldValidation": "Strict"})
        assert made["spec"].keys() >= body["spec"].keys()
