"""Rights of consumers by adapter in a stack file, and the facts that reports read about them."""

from __future__ import annotations

import json

import pytest

from inferplan.stackfile.facts import facts_of
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.contract import contract_of
from tests.unit.stackfile.test_checks import (
    CONFIG,
    MODEL,
    lines,  # noqa: F401 - the fixture that judges a stack
    only,
)

ADAPTERS = {"loraAdapters": {"Polite": "adapters/polite", "terse": "adapters/terse"}}


def model(**changed: object) -> dict[str, dict[str, object]]:
    return {
        "chat-model": {**MODEL, **ADAPTERS, "loraConsumers": {"Polite": ["batch"]}, **changed},
    }


CONSUMERS = {"chat": {"keys": [1]}, "batch": {"keys": [1]}}


def test_an_adapter_may_have_consumers_of_its_own(lines):  # noqa: F811 - the fixture
    assert lines(models=model(), consumers=CONSUMERS) == ()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"loraConsumers": {"polite": ["batch"]}},
            "models.chat-model.loraConsumers.polite: Unknown adapter 'polite'. Did you mean 'Polite'?",
        ),
        (
            {"loraConsumers": {"Polite": ["bach"]}},
            (
                "models.chat-model.loraConsumers.Polite[0]: Unknown consumer 'bach'. Did you mean"
                " 'batch'?"
            ),
        ),
        ({"loraConsumers": {"Polite": ["batch", "batch"]}}, "batch is listed more than once."),
        (
            {"task": "classify"},
            "Remove loraConsumers, or serve the adapter by a model of its own.",
        ),
    ],
)
def test_wrong_rights_are_errors_at_their_place(lines, changed, message):  # noqa: F811 - the fixture
    assert message in only(lines(models=model(**changed), consumers=CONSUMERS))


def test_a_name_with_two_meanings_is_an_error(lines):  # noqa: F811 - the fixture
    route = {"polite": {"backends": {"chat-model": 1}, "consumers": ["chat"]}}
    found = lines(models=model(), consumers=CONSUMERS, routes=route)
    assert "routes.polite: The name 'polite' is already used by" in only(found)
    two = {**model(), "other": {**MODEL, "servedModelName": "chat-model"}}
    assert "the name of another model or route" in only(lines(models=two, consumers=CONSUMERS))


def test_without_an_nginx_gateway_the_right_is_an_error(lines):  # noqa: F811 - the fixture
    envoy = {
        "implementation": "envoyGateway",
        "exposure": "gatewayApi",
        "host": "llm.acme.example",
        "parent": {"name": "public", "namespace": "infra"},
    }
    found = only(lines(models=model(), consumers=CONSUMERS, gateway=envoy))
    assert "Use gateway: {implementation: nginx, ...}, or remove loraConsumers." in found


def test_clients_and_reports_know_the_adapter_as_a_name_with_rights(tmp_path):
    config = {**CONFIG, "models": model(), "consumers": CONSUMERS}
    path = tmp_path / "Pulumi.test.yaml"
    path.write_text(
        json.dumps({"config": {f"inferplan:{key}": each for key, each in config.items()}})
    )
    settings = validate(read_stack(path))
    contract = contract_of(settings)
    assert contract.address("chat-model") == "https://llm.acme.example/v1"
    assert contract.names == {"Polite": "Polite", "chat-model": "chat-model", "terse": "chat-model"}
    assert contract.routes["Polite"].consumers == ("batch",)
    facts = facts_of(settings, list(contract.endpoints.values()), two_seeds=False)
    assert facts["route"]["Polite"] == {"consumers": ["batch"], "shares": {"chat-model": 100.0}}
    assert "loraConsumers" not in facts["model"]["chat-model"].get("settings", {})
