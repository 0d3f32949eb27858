"""What the report says about the requests of public routes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.kube.facts import document
from inferplan.review.report import make_report
from tests.review_streams import preview, stack_step


def side(route: Mapping[str, object] | None, **replicas: int) -> dict[str, object]:
    stated = document(
        []
        if route is None
        else [("chat-large", RouteSpec.model_validate({"consumers": ["chat"], **route}).facts)]
    )
    models = {name: {"maxReplicas": most} for name, most in replicas.items()}
    gateway = {"gateway": {"host": "a", "scheme": "https"}}
    return {"facts": {**stated, "model": models, "gateway": gateway}}


def risks(old: dict[str, object], new: dict[str, object]) -> list[tuple[int, str, str]]:
    found = make_report([preview(stack_step(old, new))]).stacks[0].risks
    return [(each.weight, each.what, each.cause) for each in found if each.kind == "route"]


READY = {"llama": 1, "next": 1}


@pytest.mark.parametrize(("first", "second"), [("llama", "next"), ("llama-3-8b", "qwen3-next")])
def test_a_moved_share_names_route_model_and_figures(first, second):
    ready = {first: 1, second: 1}
    old, new = ({"backends": {first: 100 - share, second: share}} for share in (0, 5))
    [(weight, what, cause)] = risks(side(old, **ready), side(new, **ready))
    assert (weight, what) == (1, f"5% of chat-large moves to {second}")
    assert f"{first} 100% → 95%" in cause
    assert f"{second} 0% → 5%" in cause


def test_the_same_shares_in_other_numbers_are_no_change():
    assert (
        risks(
            side({"backends": {"llama": 1, "next": 1}}, **READY),
            side({"backends": {"llama": 50, "next": 50}}, **READY),
        )
        == []
    )


@pytest.mark.parametrize(
    ("new", "replicas", "cause"),
    [
        (
            {"backends": {"llama": 95, "third": 5}},
            {**READY, "third": 1},
            "third is new and has to start first",
        ),
        ({"backends": {"llama": 95, "next": 5}}, {"llama": 1, "next": 0}, "next has no replicas"),
        (
            {"backends": {"llama": 95, "next": 5}, "fallback": "third"},
            {"llama": 1, "next": 0, "third": 1},
            "next has no replicas",
        ),
    ],
)
def test_a_share_without_a_ready_replica_is_critical(new, replicas, cause):
    found = risks(side({"backends": {"llama": 1}}, **READY), side(new, **replicas))
    assert (0, "leaves 5% of its requests without a ready replica", cause) in found


@pytest.mark.parametrize(
    "new",
    [
        {"backends": {"llama": 95, "next": 5}, "fallback": "llama"},
        {"backends": {"llama": 1, "next": 0}},
    ],
)
def test_a_fallback_that_is_ready_and_a_model_without_share_are_no_loss(new):
    found = risks(side({"backends": {"llama": 1}}, **READY), side(new, llama=1, next=0))
    assert not any(weight == 0 for weight, _, _ in found)


def test_a_new_route_loses_nothing():
    assert not any(
        weight == 0
        for weight, _, _ in risks(
            side(None, llama=1), side({"backends": {"third": 1}}, llama=1, third=1)
        )
    )


def test_a_lost_name_and_a_lost_consumer_are_critical():
    old, new = (
        {"backends": {"llama": 1}, "aliases": ["gpt-4o"], "consumers": ["chat", "batch"]},
        {"backends": {"llama": 1}},
    )
    said = [
        what for weight, what, _ in risks(side(old, llama=1), side(new, llama=1)) if weight == 0
    ]
    assert sorted(said) == ["batch can no longer call", "loses a name"]
    assert risks(side(old, llama=1), side(None, llama=1))[0][1:] == (
        "batch and chat can no longer call",
        "the route or the gateway is removed",
    )


@pytest.mark.parametrize("artifact", ["lora", "support-lora"])
def test_other_files_of_an_artifact_are_other_weights_whatever_its_name(artifact):
    models = (
        {"chat": {"artifacts": {artifact: {"revision": revision}}}} for revision in ("one", "two")
    )
    old, new = ({"facts": {**document([]), "model": each}} for each in models)
    [risk] = make_report([preview(stack_step(old, new))]).stacks[0].risks
    assert (risk.weight, risk.what) == (0, "serves other weights")
