"""No model of the library ends a plan, and none is asked of a hub."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from tests.unit.predict.facts import library, model, stack

library()

from inferplan.predict.forecast import forecasts  # noqa: E402 - after the skip
from inferplan.predict.library import known_models  # noqa: E402 - after the skip

_EVERY = 16
MODELS = [
    pytest.param(
        name, marks=() if index % _EVERY == 0 or "Nemotron-Super-49B" in name else pytest.mark.full
    )
    for index, name in enumerate(known_models())
]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_forecast_or_a_reason(name, monkeypatch):
    asked: list[object] = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda request, **_: asked.append(request))
    subjects = stack(model(traffic={"model": name}, weights={"path": "own"}))
    [each] = forecasts(subjects, Path())
    assert each.reason if each.source == "unknown" else each.memory
    assert asked == []


def test_a_context_beyond_the_positions_of_the_model_is_a_problem():
    facts = model(traffic={"model": "Qwen/Qwen3-8B"}, batching={"contextLength": 1_000_000})
    [each] = forecasts(stack(facts), Path())
    assert "contextLength 1,000,000 is more than the 40,960 positions" in each.problems[0]
    fitting = model(traffic={"model": "Qwen/Qwen3-8B"}, batching={"contextLength": 32_768})
    assert forecasts(stack(fitting), Path())[0].problems == ()
