"""Errors about the sides of a split model stand at the field that the user wrote, with a remedy."""

from __future__ import annotations

import json

import pytest
import yaml

from inferplan.planning.notes import router_notes
from inferplan.stackfile.advice import advice
from tests.unit.stackfile.test_checks import MODEL, lines, only
from tests.unit.stackfile.test_router_checks import settings_of

__all__ = ["lines", "settings_of"]
SPLIT = {"prefill": {"replicas": 2}, "decode": {"replicas": 1}}


def test_a_split_model_is_sound_and_gets_no_note_about_replicas(lines, settings_of):
    assert lines(SPLIT) == ()
    settings = settings_of(SPLIT)
    assert [*settings.models] == ["chat-model-prefill", "chat-model"]
    assert [*settings.called_models] == ["chat-model"]
    assert [each.message for each in advice(settings) if "consumer" in each.message] == []
    assert list(router_notes(settings)) == []


@pytest.mark.parametrize(
    ("written", "place", "words"),
    [
        ({"prefill": {"pool": "nope"}, "decode": {}}, "prefill.pool", "Unknown pool 'nope'"),
        ({"prefill": {}, "decode": {"pool": "nope"}}, "decode.pool", "Unknown pool 'nope'"),
        ({"prefill": {"pool": "system"}, "decode": {}}, "prefill.pool", "Use a pool with acc"),
        ({"prefill": {"replicas": 9}, "decode": {}}, "prefill.replicas", "Lower replicas"),
        ({"prefill": {}, "decode": {"replicas": 9}}, "decode.replicas", "Lower replicas"),
        ({"prefill": {"replicas": 5}, "decode": {"replicas": 4}}, "decode.replicas", "at most 3"),
        (
            {"prefill": {}, "decode": {"tensorParallelSize": 8}},
            "decode.tensorParallelSize",
            "Lower",
        ),
        ({"prefill": {"pool": "gaudi2"}, "decode": {}}, "prefill.pool", "Use a pool with the same"),
    ],
)
def test_an_error_of_one_side_is_at_its_field(lines, written, place, words):
    line = only(lines(written))
    assert f"models.chat-model.{place}: " in line
    assert words in line
    assert line.startswith("s.yaml:1:")


def test_no_model_has_the_name_of_a_side(lines):
    models = {"chat": {**MODEL, **SPLIT}, "chat-prefill": MODEL}
    [line] = [each for each in lines(models=models) if "reserved" in each]
    assert "models.chat-prefill" in line
    assert "the prefill side of chat" in line


def test_a_split_model_behind_envoy_has_no_router(lines):
    gateway = {
        "implementation": "envoyGateway",
        "exposure": "gatewayApi",
        "host": "llm.acme.example",
        "parent": {"name": "eg", "namespace": "envoy"},
    }
    [line] = [each for each in lines(SPLIT, gateway=gateway) if "router" in each]
    assert "Use implementation nginx, or remove prefill and decode." in line


@pytest.mark.parametrize(
    "config",
    [
        {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
        {"kv_connector": "MooncakeConnector", "kv_role": "kv_consumer"},
    ],
)
def test_a_transfer_without_a_peer_names_the_fields_that_make_one(lines, config):
    line = only(lines({"extraArgs": [f"--kv-transfer-config={json.dumps(config)}"]}))
    assert "models.chat-model.extraArgs[0]" in line
    remedy = line.partition("Write ")[2].partition(" instead")[0]
    pasted = yaml.safe_load(remedy.replace(", decode", "\ndecode"))
    assert lines(pasted) == ()


def test_a_split_model_has_one_transfer(lines):
    config = json.dumps({"kv_connector": "OffloadingConnector", "kv_role": "kv_both"})
    line = only(lines({**SPLIT, "extraArgs": [f"--kv-transfer-config={config}"]}))
    assert "models.chat-model.extraArgs[0]" in line
    assert "Remove it" in line


def test_routes_and_benchmarks_call_models_and_not_sides(lines):
    routes = {"best": {"backends": {"chat-model-prefill": 1}, "consumers": ["chat"]}}
    line = only(lines(SPLIT, routes=routes))
    assert "routes.best.backends.chat-model-prefill: Unknown model" in line
    assert "Models in this stack: chat-model." in line
