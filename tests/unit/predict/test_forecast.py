"""Forecasts against figures that others published, and what stays unknown."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from inferplan.planning.speed_review import review
from inferplan.predict import library as kernels
from inferplan.predict.forecast import forecasts
from inferplan.predict.words import notes, row
from tests.unit.predict.facts import library, model, stack

library()


def one(facts, **pool) -> Any:
    (found,) = forecasts(stack(facts, **pool), Path())
    return found


def test_the_figures_of_llama_8b_on_an_l40s():
    # 8.03 billion parameters of 2 bytes (the model card), 128 KiB for a token in 8 of 32 heads
    # (config.json), 48 GB of memory.
    found = one(model())
    assert found.source == "predicted"
    assert found.memory.weights == pytest.approx(8.03e9 * 2, rel=0.01)
    assert found.memory.per_token == 2 * 32 * 8 * 128 * 2
    # aiconfigurator's own command line: TTFT 151 ms and TPOT 27.3 ms at a batch of 8, which 6
    # requests per second exceed.
    assert 0.08 < found.speed.ttft < 0.5
    assert 0.0273 < found.speed.itl < 0.06
    # An accelerator of a g6e.12xlarge is a fourth of $10.49264 an hour, for 6 x 1,152 tokens a
    # second.
    assert found.dollars == pytest.approx(Decimal("10.49264") / 4 / (6 * 1152 * 3600) * 1_000_000)
    assert found.basis == (
        "aiconfigurator 0.12.0, kernels of vllm 0.24.0 on l40s; the image is"
        " docker.io/vllm/vllm-openai:v0.24.0"
    )


def test_more_traffic_is_slower_and_more_replicas_are_faster():
    slow, fast = one(model(traffic={"requestsPerSecond": 7})), one(model(replicas=3))
    assert slow.speed.ttft > one(model()).speed.ttft > fast.speed.ttft
    assert slow.speed.itl > one(model()).speed.itl > fast.speed.itl
    assert fast.dollars == pytest.approx(one(model()).dollars * 3)


def test_a_shared_prefix_saves_prefill_unless_the_cache_is_off():
    shared = {"sharedPrefixPercent": 80}
    assert one(model(traffic=shared)).speed.ttft < one(model()).speed.ttft
    assert (
        one(model(traffic=shared, batching={"prefixCaching": False})).speed.ttft
        == one(model()).speed.ttft
    )


def test_traffic_beyond_the_capacity_is_overloaded_and_misses_the_objective():
    found = one(model(traffic={"requestsPerSecond": 60}))
    assert found.speed is None
    assert found.utilization > 1
    assert (
        "chat: p95 time to first token without bound at 60 requests per second: the objective of"
        " 800 ms is missed" in notes([found])
    )


def test_weights_that_do_not_fit_are_fatal_and_a_context_that_does_not_fit_is_a_risk():
    large = one(model(traffic={"model": "meta-llama/Llama-3.1-70B-Instruct"}))
    assert large.fatal.startswith(
        "the weights take 131.4 GiB of the 45.0 GiB of an accelerator, which leaves no KV cache."
        " Raise tensorPar"
    )
    long = one(model(batching={"contextLength": 131_072_000}))
    problem = long.problems[-1]
    assert problem.startswith("contextLength 131,072,000 is more than the 1")
    assert {each.what for each in review([], [large, long]).risks} >= {
        "does not fit",
        "cannot serve its context length",
    }


@pytest.mark.parametrize(
    ("changes", "pool", "reason"),
    [
        (
            {},
            {"accelerator": "gaudi-2"},
            "has no measured kernels for gaudi-2. It has them for nvidia-l40s, ",
        ),
        ({}, {"accelerator": "nvidia-l4"}, "has no measured kernels for nvidia-l4"),
        ({}, {"resource": "nvidia.com/mig-1g.10gb"}, "nothing predicts slices of nvidia-l40s"),
        (
            {"traffic": {"model": "acme/own"}},
            {},
            "does not know the layers of 'acme/own'. Set traffic.model to the published model",
        ),
        (
            # A quantized copy has the layers of its base, another size has not.
            {"traffic": {"model": "acme/Meta-Llama-3.1-8B-Instruct-AWQ-INT4"}},
            {},
            "such as meta-llama/Meta-Llama-3.1-8B,",
        ),
        (
            {"traffic": {"model": "meta-llama/Llama-3.1-80B"}},
            {},
            "the published model with the same layers, or to its config.json",
        ),
        (
            {"batching": {"quantization": "awq"}},
            {},
            "has no measured kernels for awq. It has them for fp8",
        ),
        (
            {"batching": {"quantization": "fp8"}},
            {"accelerator": "nvidia-a100-80gb"},
            "cannot predict meta-llama/Meta-Llama-3.1-8B",
        ),
    ],
)
def test_what_the_library_did_not_measure_is_unknown_with_a_remedy(changes, pool, reason):
    found = one(model(**changes), **pool)
    assert (found.source, found.speed, found.dollars) == ("unknown", None, None)
    assert reason in found.reason
    assert "Measure it" in found.reason or "measure it" in found.reason
    assert set(row(found)[1:]) == {"unknown"}


def test_an_engine_without_measured_kernels_is_unknown():
    facts = model(engine="triton") | {"batching": {}}
    assert one(facts).reason.startswith(
        "nothing predicts models of engine triton on nvidia-l40s. Measure it"
    )


def test_without_the_library_a_plan_says_what_to_install(monkeypatch):
    monkeypatch.setattr(kernels, "find_spec", lambda _: None)
    kernels.known_models.cache_clear()
    kernels.kernels.cache_clear()
    assert one(model()).reason.endswith("with the extra predict: inferplan docs installing")
    kernels.known_models.cache_clear()


def test_the_report_compares_both_sides_in_one_sentence():
    before, after = (
        forecasts(stack(model(traffic={"requestsPerSecond": rate})), Path()) for rate in (6, 60)
    )
    found = review(before, after)
    risk = next(each for each in found.risks if each.cause.startswith("p95 time to first token"))
    assert risk.name == "chat"
    assert risk.cause.endswith(
        "ms → without bound at 60 requests per second: the objective of 800 ms is missed"
    )
    assert risk.consequence.startswith(
        "predicted by aiconfigurator 0.12.0, kernels of vllm 0.24.0 on l40s; the image is "
    )
    (table,) = found.tables
    assert table.changed
    assert review(before, before).tables[0].changed is False


def test_within_the_error_of_the_library_an_objective_is_neither_kept_nor_missed():
    calm = {"replicas": 2}
    exact = one(model(**calm)).speed.ttft * 1000
    near, far = (one(model(**calm, slo={"ttft": f"{exact * part:.0f}ms"})) for part in (0.95, 0.3))
    assert review([], [near]).risks == ()
    assert [each.what for each in review([], [far]).risks] == [
        "misses its objective of time to first token"
    ]


def test_facts_without_traffic_load_nothing_of_it():
    code = (
        "import sys; from pathlib import Path; from inferplan.planning.speed import"
        " forecasts_of;found = forecasts_of({'facts': {'version': 1, 'model': {'chat': {'pool':"
        " 'gpus'}}}}, Path(), 'prod');print(found, [each for each in sys.modules if"
        " each.startswith(('inferplan.predict', 'aiconfigurator', 'numpy'))])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[] []\n"


@pytest.mark.parametrize(
    "question",
    [
        "forecast.traffic_of({'traffic': {'trace': 'monday.jsonl'}}, Path())",
        "speed.incident_at(Path('fire.toml'), 'fire.toml')",
    ],
)
def test_without_numpy_an_error_says_what_to_install(question):
    """A fresh interpreter, because this one has imported numpy."""
    program = f"""import sys; sys.modules["numpy"] = None
from pathlib import Path
from inferplan.planning import speed
from inferplan.predict import forecast
{question}"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "Error: numpy is not installed, so no trace is read" in result.stderr.splitlines()[-1]
    assert result.stderr.endswith("with the extra predict: inferplan docs installing\n")


def test_traffic_within_the_error_of_the_capacity_is_a_doubt_and_a_risk():
    limit = one(model(traffic={"requestsPerSecond": 1})).utilization
    near = one(model(traffic={"requestsPerSecond": 0.95 / limit}))
    assert near.speed is not None
    assert near.doubt.startswith("utilization is 95%, and the predicted capacity errs by up to")
    assert "may be overloaded" in {each.what for each in review([], [near]).risks}
    assert row(near)[5] == f"{128 * 0.95 / limit * near.served:,.0f} to {128 * 0.95 / limit:,.0f}"
    assert " to $" in row(near)[7]
    over = one(model(traffic={"requestsPerSecond": 1.05 / limit}))
    assert over.doubt
    assert row(over)[3] == "may be overloaded"
    beyond = one(model(traffic={"requestsPerSecond": 5 / limit}))
    assert not beyond.doubt
    assert row(beyond)[3] == "overloaded"
    far = one(model(traffic={"requestsPerSecond": 0.3 / limit}))
    assert far.doubt == ""
    assert row(far)[5] == f"{128 * 0.3 / limit:,.0f}"
