"""A usage log needs the access log of a gateway, which knows the consumers."""

from __future__ import annotations

import json

import pytest

from inferplan.stackfile.advice import advice
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.stackfile.test_checks import CONFIG, MODEL

ENVOY = {
    "implementation": "envoyGateway",
    "exposure": "gatewayApi",
    "host": "llm.acme.example",
    "parent": {"name": "eg", "namespace": "envoy"},
}
NONE = {"gateway": None, "consumers": {}}


@pytest.mark.parametrize(
    ("usage_log", "sections", "count"),
    [(True, {}, 0), (False, {"gateway": ENVOY}, 0), (True, {"gateway": ENVOY}, 1), (True, NONE, 1)],
    ids=["nginx", "off", "envoy", "none"],
)
def test_a_usage_log_without_the_log_of_nginx_is_a_warning(tmp_path, usage_log, sections, count):
    consumers = {"consumers": []} if sections is NONE else {}
    model = {**MODEL, "usageLog": usage_log, **consumers}
    config = {**CONFIG, "models": {"chat-model": model}, **sections}
    path = tmp_path / "Pulumi.test.yaml"
    path.write_text(
        json.dumps({"config": {f"inferplan:{key}": each for key, each in config.items()}})
    )
    warnings = [
        each.message
        for each in advice(validate(read_stack(path)))
        if each.path == ("models", "chat-model", "usageLog")
    ]
    assert len(warnings) == count
    assert all("only the nginx gateway logs who sent a request" in each for each in warnings)
