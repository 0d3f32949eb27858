"""A stack with a split model, as the whole stack declares it."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path

import pytest

from inferplan.client.local_gateway.real_server import RealServer, arguments_of
from inferplan.components.serving.vllm.cpu import CPU_BUILD
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings
from inferplan.pulumi_engine.program.record import record
from tests.unit.infra.test_compose_images import INFRA
from tests.unit.infra.test_compose_preheats import SEED
from tests.unit.stackfile.test_checks import CONFIG, MODEL

SPLIT = {**MODEL, "prefill": {"replicas": 2}, "decode": {"replicas": 2}}


def recorded(model, **more):
    sections = {**CONFIG, "models": {"chat-model": model}, **more}
    config = {
        f"inferplan:{key}": json.dumps(value)
        for key, value in sections.items()
        if key != "apiKeySeed"
    }
    return record(
        INFRA, project="inferplan", stack="test", config=config | SEED, secret_keys=frozenset(SEED)
    )


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def recording(request):
    return recorded({**SPLIT, "engine": request.param})


def of(recording, kind):
    return {each.name: each for each in recording.of_type(f"kubernetes:{kind}")}


def test_one_router_finds_both_sides(recording):
    deployments = of(recording, "apps/v1:Deployment")
    assert {"chat-model", "chat-model-prefill", "chat-model-router"} <= deployments.keys()
    [router] = deployments["chat-model-router"].inputs["spec"]["template"]["spec"]["containers"]
    arguments = router["args"]
    assert "--pd-disaggregation" in arguments
    for side, name in (("prefill", "chat-model-prefill"), ("decode", "chat-model")):
        place = arguments.index(f"--{side}-selector")
        words = takewhile(lambda each: not each.startswith("--"), arguments[place + 1 :])
        chosen = dict(each.split("=") for each in words)
        labels = deployments[name].inputs["spec"]["template"]["metadata"]["labels"]
        assert chosen["app.kubernetes.io/instance"] == name
        assert chosen.items() <= labels.items()


def test_prefill_servers_are_ready_before_decode_servers_start(recording):
    deployments = of(recording, "apps/v1:Deployment")
    assert deployments["chat-model-prefill"].urn in deployments["chat-model"].dependencies
    assert deployments["chat-model"].urn not in deployments["chat-model-prefill"].dependencies


def test_the_service_changes_once_both_sides_are_ready(recording):
    # The pods of a model that becomes split have other labels, and answer until then.
    service = of(recording, "core/v1:Service")["chat-model"]
    deployments = of(recording, "apps/v1:Deployment")
    sides = {deployments[name].urn for name in ("chat-model", "chat-model-prefill")}
    assert sides <= {*service.dependencies}


def rules_about(recording):
    report = check_stack(stack_of(recording), Settings(today="2026-11-21"))
    return {each.rule.id for each in (*report.violations, *report.advice)}


def test_no_policy_has_more_against_it_than_against_a_model_in_one_piece(recording):
    assert rules_about(recording) == rules_about(recorded(MODEL))


def test_a_side_that_follows_the_gateways_requests_follows_those_of_the_model():
    scaled = {"min": 1, "max": 2, "on": {"requestsInFlight": 4}}
    monitoring = {"prometheus": {"namespace": "monitoring", "url": "http://prometheus.monitoring"}}
    recording = recorded(
        {**SPLIT, "prefill": {"replicas": scaled}}, monitoring={**monitoring, "scrape": {}}
    )
    [scaler] = recording.of_type("kubernetes:keda.sh/v1alpha1:ScaledObject")
    assert scaler.inputs["spec"]["scaleTargetRef"]["name"] == "chat-model-prefill"
    [trigger] = scaler.inputs["spec"]["triggers"]
    assert 'model="chat-model"' in trigger["metadata"]["query"]


def test_reports_count_the_accelerators_of_both_sides(recording):
    facts = recording.outputs["facts"]["model"]
    counts = {name: (each["accelerators"], each["replicas"]) for name, each in facts.items()}
    assert counts == {"chat-model": (1, 2), "chat-model-prefill": (1, 2)}
    assert not {"consumers", "names"} & facts["chat-model-prefill"].keys()


def test_a_real_server_of_a_rehearsal_has_no_peer():
    directory = Path("/models")
    server = RealServer(model="chat-model", directory=directory, program="vllm", build=CPU_BUILD)
    kept, dropped = arguments_of(server, recorded(SPLIT))
    assert "--kv-transfer-config" in dropped
    assert not any("NixlConnector" in each for each in kept)


def test_both_sides_accept_one_key_and_clients_see_one_model(recording):
    made = [each.inputs.get("metadata", {}).get("name", "") for each in recording.registrations]
    assert [name for name in made if name.endswith("server-key")] == ["chat-model-server-key"]
    keys = set()
    for name in ("chat-model", "chat-model-prefill"):
        pod = of(recording, "apps/v1:Deployment")[name].inputs["spec"]["template"]["spec"]
        [server] = pod["containers"]
        keys |= {
            each["valueFrom"]["secretKeyRef"]["name"]
            for each in server["env"]
            if "secretKeyRef" in each.get("valueFrom", {})
        }
    assert keys == {"chat-model-server-key"}
    proxy = of(recording, "apps/v1:Deployment")["gateway"].inputs["spec"]["template"]
    assert "chat-model-prefill" not in json.dumps(proxy)


def test_the_router_waits_as_long_as_both_sides_need(recording):
    deployments = of(recording, "apps/v1:Deployment")
    deadlines = {
        name: each.inputs["spec"]["progressDeadlineSeconds"] for name, each in deployments.items()
    }
    assert deadlines["chat-model-router"] > deadlines["chat-model"]
