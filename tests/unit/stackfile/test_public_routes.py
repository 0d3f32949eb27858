"""Public routes in a stack file: what they may name, and what their models' servers are told."""

from __future__ import annotations

from typing import Any

import pytest

from inferplan.components.gateway.route_spec import RouteSpec, names_for
from tests.unit.gateway.whole_stack import recorded
from tests.unit.stackfile.test_checks import (
    MODEL,
    lines,  # noqa: F401 - the fixture that judges a stack
    only,
)
from tests.unit.stackfile.test_queue_checks import RAY

ROUTE = {
    "backends": {"chat-model": 95, "chat-next": 5},
    "aliases": ["gpt-4o"],
    "fallback": "chat-model",
    "consumers": ["chat"],
}
MODELS = {"chat-model": MODEL, "chat-next": {**MODEL, "consumers": []}}


def route(**changed: object) -> dict[str, dict[str, object]]:
    return {"chat-large": {**ROUTE, **changed}}


def test_a_sound_route_has_no_error(lines):  # noqa: F811 - the fixture
    assert lines(models=MODELS, routes=route()) == ()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            route(backends={"chat-modl": 1}),
            (
                "routes.chat-large.backends.chat-modl: Unknown model 'chat-modl'. Did you mean"
                " 'chat-model'?"
            ),
        ),
        (route(fallback="other"), "routes.chat-large.fallback: Unknown model 'other'."),
        (route(consumers=["nobody"]), "routes.chat-large.consumers[0]: Unknown consumer 'nobody'."),
        (
            route(backends={"chat-model": 0}),
            (
                "Every weight of backends is 0, so no model would answer. Give one model a weight"
                " from 1 to 1000."
            ),
        ),
        (
            route(aliases=["Chat-Next"]),
            "The name 'Chat-Next' is already used by models.chat-next. Use another name.",
        ),
        (route(aliases=["a", "a"]), "a is listed more than once."),
        (
            {**route(), "other": {**ROUTE, "aliases": ["GPT-4o"]}},
            "The name 'GPT-4o' is already used by routes.chat-large.aliases.0.",
        ),
        ({"chat-model": ROUTE}, "The name 'chat-model' is already used by models.chat-model."),
        ({"v1": ROUTE}, "'v1' is reserved for the address /v1 of every model. Rename the route."),
    ],
)
def test_a_route_that_means_nothing_or_two_things_is_rejected(lines, written, message):  # noqa: F811 - the fixture
    assert any(message in line for line in lines(models=MODELS, routes=written))


def test_the_servers_of_a_route_must_take_its_name(lines):  # noqa: F811 - the fixture
    app = {key: each for key, each in RAY.items() if key != "queue"}
    error = only(lines(models={**MODELS, "app": app}, routes=route(fallback="app")))
    assert (
        "app runs on engine ray-serve, whose servers cannot be told the name of a route. Use a"
        " model of engine vllm." in error
    )


def test_an_implementation_that_cannot_read_bodies_is_named_with_one_that_can(
    lines,  # noqa: F811 - the fixture
):
    gateway = {
        "implementation": "envoyGateway",
        "exposure": "gatewayApi",
        "host": "a.example",
        "parent": {"name": "g", "namespace": "g"},
    }
    error = only(lines(models=MODELS, routes=route(), gateway=gateway))
    assert (
        "implementation envoyGateway cannot read a model's name from request bodies. Use"
        " implementation nginx." in error
    )


def test_shares_are_percentages_and_add_up():
    spec = RouteSpec.model_validate({"backends": {"a": 2, "b": 1, "c": 0}})
    assert spec.shares == {"a": 66.67, "b": 33.33}
    assert spec.facts.testing == ["c"]


def test_each_model_of_a_route_is_told_its_names():
    routes = {
        "chat-large": RouteSpec.model_validate(ROUTE),
        "other": RouteSpec.model_validate({"backends": {"chat-next": 1}}),
    }
    assert names_for("chat-model", routes) == ("chat-large", "gpt-4o")
    assert names_for("chat-next", routes) == ("chat-large", "gpt-4o", "other")
    assert names_for("third", routes) == ()


def _objects(weights: dict[str, int]) -> dict[tuple[str, str], dict[str, Any]]:
    """What the program registers for the stack `local` with a route."""
    recording = recorded(
        routes={"chat-large": {"backends": weights, "aliases": ["gpt-4o"], "consumers": ["chat"]}}
    )
    return {(each.type, each.name): each.inputs for each in recording.registrations}


def test_a_weight_replaces_the_gateway_s_pods_and_nothing_else():
    before, after = (
        _objects({"llama-3-8b": 95, "llama-3-70b": 5}),
        _objects({"llama-3-8b": 50, "llama-3-70b": 50}),
    )
    changed = {
        kind.rpartition(":")[2]
        for kind, name in {*before, *after}
        if before.get((kind, name)) != after.get((kind, name))
    }
    assert changed == {"Gateway", "ConfigMap", "Deployment"}
    assert {
        name
        for kind, name in before
        if kind.endswith(":Deployment") and before[kind, name] != after[kind, name]
    } == {"gateway"}
    [config] = [
        each["data"]["nginx.conf"]
        for (kind, name), each in after.items()
        if kind.endswith(":ConfigMap") and name.startswith("gateway-config")
    ]
    assert "50.0% llama-3-70b;" in config
    servers = [
        after["kubernetes:apps/v1:Deployment", name]
        for name in ("llama-3-8b", "llama-3-70b")
        if ("kubernetes:apps/v1:Deployment", name) in after
    ]
    assert servers
    for each in servers:
        arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
        at = arguments.index("--served-model-name")
        assert arguments[at + 2 : at + 4] == ["chat-large", "gpt-4o"]
