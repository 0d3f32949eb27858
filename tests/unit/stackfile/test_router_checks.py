"""A router needs a gateway that calls it, a name of its own, and replicas to choose from."""

from __future__ import annotations

import pytest

from inferplan.planning.notes import router_notes
from inferplan.status.models import without_router
from tests.unit.serving.models import vllm
from tests.unit.stackfile.test_checks import CONFIG, MODEL, lines, only

__all__ = ["lines"]
ROUTED = {"router": {}, "replicas": 2}


def test_a_router_behind_the_gateway_of_nginx_is_no_error(lines):
    assert lines(ROUTED) == ()


@pytest.mark.parametrize(
    ("gateway", "words"),
    [
        (
            {
                "implementation": "envoyGateway",
                "exposure": "gatewayApi",
                "host": "llm.acme.example",
                "parent": {"name": "eg", "namespace": "envoy"},
            },
            "Use implementation nginx, or remove router.",
        ),
        (None, "Add gateway, or remove router."),
    ],
    ids=["envoy", "none"],
)
def test_a_router_that_no_gateway_calls_is_an_error_at_its_place(lines, gateway, words):
    sections = {"gateway": gateway} if gateway else {"gateway": None, "consumers": {}}
    model = ROUTED if gateway else {**ROUTED, "consumers": []}
    [line] = [each for each in lines(model, **sections) if "router" in each]
    assert line.startswith("s.yaml:1:")
    assert "models.chat-model.router: The gateway alone may call a router" in line
    assert words in line


def test_no_model_has_the_name_of_a_router(lines):
    models = {"chat": {**MODEL, **ROUTED, "replicas": 1}, "chat-router": MODEL}
    line = only(lines(models=models))
    assert "models.chat-router" in line
    assert "the router of chat" in line


def test_a_router_for_one_replica_is_said(settings_of):
    [note] = router_notes(settings_of({"router": {}}))
    assert note.startswith("chat-model: a router chooses among replicas, and this model has 1.")
    assert list(router_notes(settings_of(ROUTED))) == []
    assert (
        list(
            router_notes(
                settings_of({"router": {}, "replicas": {"min": 1, "max": 2, "on": {"cpu": 70}}})
            )
        )
        == []
    )


@pytest.fixture
def settings_of(tmp_path):
    import json

    from inferplan.stackfile.reader import read_stack
    from inferplan.stackfile.settings import validate

    def read(model):
        config = {**CONFIG, "models": {"chat-model": {**MODEL, **model}}}
        path = tmp_path / "Pulumi.test.yaml"
        path.write_text(
            json.dumps({"config": {f"inferplan:{key}": value for key, value in config.items()}})
        )
        return validate(read_stack(path, shown_path="s.yaml"))

    return read


def test_status_says_that_no_router_is_ready():
    routed = vllm(router={}, replicas=2)
    ready = {"chat-router": {"status": {"readyReplicas": 1}}}
    assert without_router("chat", routed, {}).startswith("no router pod is ready")
    assert without_router("chat", routed, {"chat-router": {"status": {}}}) != ""
    assert without_router("chat", routed, ready) == ""
    assert without_router("chat", vllm(), {}) == ""
    sides = vllm(prefill={}, decode={}).parts("chat")
    assert "a ready server on each side" in without_router("chat", sides["chat"], {})
    assert without_router("chat-prefill", sides["chat-prefill"], {}) == ""
