"""Measured profiles are preferred while they match; nothing else is known of Gaudi and of models on
Triton.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.predict.forecast import forecasts
from inferplan.predict.profiles import document, key_of
from inferplan.predict.words import notes
from tests.unit.predict.facts import POOL, library, model, stack

library()

GAUDI = {"accelerator": "gaudi-2", "resource": "habana.ai/gaudi"}


def rows(*loads, prompt=1000):
    """Measurements of (clients, tokens per second, TTFT p95, ITL p95)."""
    return [
        {
            "promptTokens": prompt,
            "concurrency": clients,
            "tokensPerSecond": tokens,
            "ttftMs": {"p50": ttft / 2, "p95": ttft, "p99": ttft * 2},
            "itlMs": {"p50": itl / 2, "p95": itl, "p99": itl * 2},
        }
        for clients, tokens, ttft, itl in loads
    ]


def kept(tmp_path, facts, pool, **changes):
    path = tmp_path / "profiles" / "prod" / "chat.json"
    path.parent.mkdir(parents=True)
    options: dict[str, Any] = {
        "job": "benchmark-1",
        "replicas": 1,
        "output_tokens": 128,
        "rows": rows((1, 128, 100, 10), (8, 1280, 300, 30)),
    } | changes
    path.write_text(document(key_of(facts, {**POOL, **pool}), **options))
    return {"chat": path}


def one(facts, pool, profiles) -> Any:
    (found,) = forecasts(stack(facts, **pool), Path(), profiles)
    return found


@pytest.mark.parametrize(
    "facts",
    [model(), model(engine="triton") | {"batching": {"image": "registry.example/triton:1"}}],
)
def test_a_profile_answers_what_no_library_knows(tmp_path, facts):
    # 128 and 1,280 tokens a second are 1 and 10 requests of 128 tokens, so 6 a second are 5/9 of
    # the way between both loads.
    found = one(facts, GAUDI, kept(tmp_path, facts, GAUDI))
    assert (found.source, found.band) == ("measured", None)
    assert found.speed.ttft == pytest.approx(0.1 + 5 / 9 * 0.2)
    assert found.speed.itl == pytest.approx(0.01 + 5 / 9 * 0.02)
    assert found.utilization == pytest.approx(0.6)
    assert "chat: measured by benchmark benchmark-1 (profiles/prod/chat.json)" in notes([found])


def test_a_profile_is_preferred_to_a_prediction_and_shared_by_its_replicas(tmp_path):
    found = one(model(), {}, kept(tmp_path, model(), {}, replicas=2))
    assert found.source == "measured"
    assert found.utilization == pytest.approx(6 / 5)
    assert found.speed is None


@pytest.mark.parametrize(
    ("changes", "pool", "words"),
    [
        (
            {"batching": {"image": "docker.io/vllm/vllm-openai:v9"}},
            {},
            "image 'docker.io/vllm/vllm-openai:v0.24.0' instead of",
        ),
        (
            {"batching": {"maxSequences": 9}},
            {},
            "maxSequences 256 instead of 9. Repeat the benchmark and keep its result, or remove",
        ),
        ({"settings": {"enforceEager": True}}, {}, "settings {} instead of {'enforceEager': True}"),
        ({}, {"accelerator": "nvidia-h100"}, "accelerator 'nvidia-l40s' instead of 'nvidia-h100'"),
        (
            {"traffic": {"inputTokens": 4000}},
            {},
            (
                "has no prompts of about 4000 tokens (the nearest are of 1000). Add them to"
                " inferplan:bench"
            ),
        ),
        (
            {"traffic": {"outputTokens": 512}},
            {},
            "has no answers of about 512 tokens (the nearest are of 128)",
        ),
    ],
)
def test_a_profile_of_something_else_is_not_used_and_says_why(tmp_path, changes, pool, words):
    found = one(model(**changes), pool, kept(tmp_path, model(), {}))
    assert found.source == "predicted"
    assert words in found.reason
    assert any(words in each for each in notes([found]))


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": "other"}', json.dumps({"format": "inferplan-profile/1", "key": {}})],
)
def test_a_damaged_profile_is_one_line_with_the_remedy(tmp_path, text):
    profiles = kept(tmp_path, model(), {})
    profiles["chat"].write_text(text)
    reason = one(model(), GAUDI, profiles).reason
    assert reason.startswith(
        "profiles/prod/chat.json is not a profile of format inferplan-profile/1: "
    )
    assert "Write it again with inferplan benchmark --keep, or remove it" in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replicas": 0}, "replicas is 0, which should be greater than 0"),
        ({"rows": rows((8, -5, 300, 30))}, "measurements[0].tokensPerSecond is -5"),
        ({"rows": rows((8, 1280, 300, -30))}, "measurements[0].itlMs.p50 is -15.0"),
        ({"rows": rows((8, "many", 300, 30))}, "measurements[0].tokensPerSecond is 'many'"),
        (
            {"rows": [{**rows((8, 1280, 300, 30))[0], "ttftMs": 3}]},
            "measurements[0].ttftMs is 3, which should be",
        ),
    ],
)
def test_figures_that_cannot_be_measurements_are_one_line_with_their_place(
    tmp_path, changes, words
):
    found = one(model(), GAUDI, kept(tmp_path, model(), GAUDI, **changes))
    assert (found.source, found.speed) == ("unknown", None)
    assert found.reason.startswith(
        "profiles/prod/chat.json is not a profile of format inferplan-profile/1: "
    )
    assert words in found.reason
    assert "Write it again with inferplan benchmark --keep, or remove it" in found.reason
