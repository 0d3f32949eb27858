"""Budgets of tokens in a stack file: who may have one, and the objects that it adds."""

from __future__ import annotations

import pytest

from inferplan.pulumi_engine.recording import Recording
from tests.unit.gateway.whole_stack import recorded, refusals
from tests.unit.stackfile.test_checks import (
    CONFIG,
    MODEL,
    lines,  # noqa: F401 - the fixture that judges a stack
    only,
)

COUNTED = {**MODEL, "usageLog": True}
LIMITED = {"chat": {"keys": [1], "limits": {"tokensPerDay": 1000}}}
LLAMA = {
    **MODEL,
    "weights": {**MODEL["weights"], "revision": "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"},
    "replicas": 2,
}


def test_a_budget_needs_models_whose_tokens_are_counted(lines):  # noqa: F811 - the fixture
    assert lines(models={"chat-model": COUNTED}, consumers=LIMITED) == ()
    line = only(lines(models={"chat-model": MODEL}, consumers=LIMITED))
    assert "consumers.chat.limits.tokensPerDay: The tokens of chat-model are not counted" in line
    assert "Set models.chat-model.usageLog: true" in line


def test_an_engine_without_a_usage_log_is_said(lines):  # noqa: F811 - the fixture
    sglang = {**MODEL, "engine": "sglang"}
    line = only(lines(models={"chat-model": sglang}, consumers=LIMITED))
    assert "Engine sglang has no usage log. Remove tokensPerDay, or remove chat" in line
    assert "usageLog" not in line


def test_a_model_behind_a_route_or_an_adapter_counts_too(lines):  # noqa: F811 - the fixture
    route = {"any": {"backends": {"chat-model": 1}, "consumers": ["chat"]}}
    model = {**MODEL, "consumers": []}
    found = lines(models={"chat-model": model}, routes=route, consumers=LIMITED)
    assert "The tokens of chat-model are not counted" in only(found)
    adapter = {**model, "loraAdapters": {"a": "a"}, "loraConsumers": {"a": ["chat"]}}
    found = lines(models={"chat-model": adapter}, consumers=LIMITED)
    assert "The tokens of chat-model are not counted" in only(found)


@pytest.mark.parametrize("tokens", [0, -5, 1.5, "1M"])
def test_a_budget_is_a_number_of_tokens(lines, tokens):  # noqa: F811 - the fixture
    consumers = {"chat": {"keys": [1], "limits": {"tokensPerDay": tokens}}}
    line = only(lines(models={"chat-model": COUNTED}, consumers=consumers))
    assert "consumers.chat.limits.tokensPerDay" in line
    # The value is no secret, and the field exists.
    assert str(tokens) in line
    assert "is not supported" not in line


def test_the_name_of_the_service_is_taken(lines):  # noqa: F811 - the fixture
    models = {"token-budgets": COUNTED}
    assert "reserved for the Service of token budgets" in only(
        lines(models=models, consumers=LIMITED)
    )
    assert lines(models=models, consumers=CONFIG["consumers"]) == ()


def stack(*, budget: bool) -> Recording:
    limits = {"limits": {"tokensPerDay": 1000}} if budget else {}
    models = {"llama-3-8b": {**LLAMA, "usageLog": True}}
    return recorded(models=models, consumers={"chat": {"keys": [1], **limits}}, keyHistory={})


def by_name(recording: Recording) -> dict[tuple[str, str], dict]:
    return {
        (each.type.rpartition(":")[2], each.name): each.inputs for each in recording.registrations
    }


def test_a_budget_adds_a_container_that_passes_the_policies_and_nothing_without_one():
    plain, budgeted = (stack(budget=each) for each in (False, True))
    assert refusals(budgeted) == refusals(plain) == []
    before, after = by_name(plain), by_name(budgeted)
    assert {*after} - {*before} >= {("Service", "token-budgets")}
    assert not [name for _, name in before if name == "token-budgets"]
    model = after["Deployment", "llama-3-8b"]["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "TOKEN_BUDGETS", "value": "token-budgets:8090"} in model["env"]
    containers = {
        each: found["Deployment", "gateway"]["spec"]["template"]["spec"]["containers"]
        for each, found in (("plain", before), ("budgeted", after))
    }
    assert [each["name"] for each in containers["plain"]] == ["nginx"]
    assert [each["name"] for each in containers["budgeted"]] == ["nginx", "budgets"]
    [given] = [each for each in containers["budgeted"][1]["env"] if each["name"] == "BUDGETS"]
    assert given["value"] == '{"chat": 1000}'
    for name in ("llama-3-8b", "gateway"):
        ports = [
            port["port"]
            for rule in after["NetworkPolicy", name]["spec"]["egress"]
            for port in rule.get("ports", ())
        ]
        assert 8090 in ports
