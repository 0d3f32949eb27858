"""Errors of `replicas: {min, max, on}`, as a user meets them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.serving.models import vllm
from tests.unit.stackfile.test_checks import CONFIG, MODEL, only

MONITORING = {
    "prometheus": {"namespace": "monitoring", "url": "http://prometheus.monitoring.svc:9090"}
}


@pytest.fixture
def lines(tmp_path):
    """The errors of a stack whose model has these replicas."""

    def judge(
        replicas: dict[str, Any], model: dict[str, Any] | None = None, **sections: Any
    ) -> tuple[str, ...]:
        models = {"chat-model": {**MODEL, "replicas": replicas, **(model or {})}}
        config = {**CONFIG, "monitoring": MONITORING, "models": models, **sections}
        path = tmp_path / "Pulumi.test.yaml"
        path.write_text(
            json.dumps(
                {
                    "config": {
                        f"inferplan:{key}": value
                        for key, value in config.items()
                        if value is not None
                    }
                }
            )
        )
        try:
            validate(read_stack(path, shown_path="s.yaml"))
        except InvalidStack as error:
            return error.lines
        return ()

    return judge


def test_a_number_is_the_minimum_and_the_maximum():
    model = vllm(replicas=3)
    assert (model.min_replicas, model.max_replicas, model.scaling) == (3, 3, None)


def test_a_range_has_both_and_follows_the_engines_own_signals():
    model = vllm(replicas={"min": 1, "max": 4})
    assert (model.min_replicas, model.max_replicas, model.most_accelerators) == (1, 4, 4)
    assert model.default_signals.names == ["waiting_requests", "kv_cache_percent"]


def test_min_above_max_is_an_error(lines):
    line = only(lines({"min": 4, "max": 2}))
    assert (
        "models.chat-model.replicas: min 4 is greater than max 2. Raise max to at least 4, or"
        " lower min" in line
    )


def test_max_is_held_against_the_pool_with_both_numbers(lines):
    line = only(lines({"min": 1, "max": 9}))
    assert (
        "models.chat-model.replicas.max: 9 x 1 = 9 accelerators do not fit pool 'l40s', which has"
        " 8. Lower max" in line
    )


def test_a_signal_of_another_engine_is_an_error_with_those_of_this_one(lines):
    line = only(lines({"min": 1, "max": 2, "on": {"queueMilliseconds": 50}}))
    assert (
        "replicas.on has queueMilliseconds, which this model does not report (engine vllm)" in line
    )
    assert "Use one of cpu, waitingRequests, kvCachePercent, requestsInFlight" in line


def test_the_cpu_signal_excludes_others_and_needs_a_running_pod(lines):
    assert "Remove one of them" in only(
        lines({"min": 1, "max": 2, "on": {"cpu": 70, "waitingRequests": 5}})
    )
    assert "Use min: 1" in only(lines({"min": 0, "max": 2, "on": {"cpu": 70}}))


def test_on_is_a_key_although_some_parsers_read_a_boolean(tmp_path):
    path = tmp_path / "Pulumi.t.yaml"
    path.write_text(
        "config:\n  inferplan:models:\n    chat: {replicas: {min: 1, max: 2, on: {cpu: 70}}}\n"
    )
    assert read_stack(path, shown_path="s.yaml").errors == ()


def test_metrics_need_the_address_of_prometheus(lines):
    line = only(lines({"min": 1, "max": 2}, monitoring=None))
    assert (
        "models.chat-model.replicas: The scaler reads waitingRequests, kvCachePercent from"
        " Prometheus, whose address is missing." in line
    )
    assert (
        "Add, for example, inferplan:monitoring: {prometheus: {namespace: monitoring, url: " in line
    )
    assert lines({"min": 1, "max": 2, "on": {"cpu": 70}}, monitoring=None) == ()


def test_without_a_gateway_that_counts_nothing_starts_a_model_at_zero(lines):
    assert lines({"min": 0, "max": 2}) == ()
    envoy = {
        "implementation": "envoyGateway",
        "exposure": "gatewayApi",
        "host": "llm.acme.example",
        "parent": {"name": "shared", "namespace": "gateways", "sectionName": "https"},
    }
    line = only(lines({"min": 0, "max": 2}, gateway=envoy))
    assert (
        "models.chat-model.replicas.min: min is 0, but no gateway of this stack counts requests"
        in line
    )
    assert "Use gateway.implementation: nginx, or use min: 1" in line
    assert "or another signal under on" in only(
        lines({"min": 1, "max": 2, "on": {"requestsInFlight": 8}}, gateway=envoy)
    )


def test_the_quota_of_a_queue_holds_the_maximum(lines):
    queues = {"serving": {"pools": {"l40s": {"accelerators": 2}}}}
    assert "needs 3 of nvidia.com/gpu" in only(
        lines({"min": 1, "max": 3}, {"queue": "serving"}, queues=queues)
    )


@pytest.mark.parametrize("seconds", [0, 5, 29])
def test_a_cooldown_shorter_than_two_measurements_is_rejected_with_the_reason(lines, seconds):
    line = only(lines({"min": 1, "max": 2, "cooldownSeconds": seconds}))
    assert (
        f"replicas.cooldownSeconds: {seconds} s is shorter than two measurements: KEDA reads the"
        " load every 15 s" in line
    )
    assert "Use at least 30" in line
    assert lines({"min": 1, "max": 2, "cooldownSeconds": 30}) == ()
