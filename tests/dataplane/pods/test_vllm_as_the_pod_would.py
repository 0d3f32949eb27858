"""vLLM itself, in its build for CPUs, under exactly what its pod imposes and called through the
plan's own gateway: only in the whole suite.
"""

from __future__ import annotations

import json

import pytest

from tests.dataplane.pods import images
from tests.dataplane.pods.plan import Plan
from tests.dataplane.pods.stand import ENGINES, ask, gateway
from tests.dataplane.serving.vllm_stand import START_SECONDS, prepared
from tests.dataplane.serving.vllm_stand import weights as tiny_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

MODEL = "llama-3-8b"
# A model of random weights is smaller than what the page serves: without adapters, in the precision
# and context that a CPU has.
SMALLER = {
    "loraAdapters": None,
    "dtype": "float32",
    "maxModelLen": 256,
    "maxNumSeqs": 4,
    "extraArgs": ["--enforce-eager"],
}


@pytest.fixture(scope="module")
def environment(vllm_environment):
    return prepared(vllm_environment)


@pytest.fixture(scope="module")
def tiny(environment, tmp_path_factory):
    return tiny_llama(environment, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def plan():
    return Plan(ENGINES / "Pulumi.vllm.yaml", {MODEL: SMALLER})


def completion(plan: Plan, **options) -> dict:
    return ask(
        plan,
        f"/{MODEL}/v1/completions",
        {"model": MODEL, "prompt": "hello", "max_tokens": 8, "ignore_eos": True},
        **options,
    )


def test_vllm_serves_through_the_gateway_and_drains(run, weights, environment, tiny, plan):
    server = {**weights(plan.pod(MODEL), tiny), "image": images.vllm(environment)}
    chat = ask(
        plan,
        f"/{MODEL}/v1/chat/completions",
        {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
    )
    calls = [completion(plan), completion(plan, key=False), chat]
    outcome = run({MODEL: server, "gateway": gateway(plan)}, plan, START_SECONDS, calls=calls)
    assert outcome["started"] == {MODEL: "ready", "gateway": "ready"}, (
        outcome["started"],
        outcome["logs"].get(MODEL),
    )
    (status, body), (denied, _), (chatted, answer) = outcome["calls"]
    assert (status, denied, chatted) == (200, 401, 200), (outcome["calls"], outcome["logs"])
    assert json.loads(body)["usage"]["completion_tokens"] == 8
    assert json.loads(answer)["model"] == MODEL
    assert outcome["stopped"] == {MODEL: 0, "gateway": 0}, outcome["logs"]
