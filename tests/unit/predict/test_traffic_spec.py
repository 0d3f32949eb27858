"""`traffic` and `slo` of a stack file, and the facts that they become."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from inferplan.hardware.accelerators import lookup
from tests.unit.serving.models import vllm

TRAFFIC = {"requestsPerSecond": 6, "inputTokens": 1024, "outputTokens": 128}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"traffic": {"requestsPerSecond": 6, "inputTokens": 9}},
            "Missing outputTokens. Traffic is requestsPerSecond, inputTokens and",
        ),
        (
            {"traffic": TRAFFIC | {"trace": "a.csv"}},
            "trace already has the requests, and requestsPerSecond, inputTokens, outputTokens",
        ),
        ({"traffic": TRAFFIC | {"inputTokens": -1}}, "greater than or equal to 1"),
        (
            {"traffic": {"trace": "../monday.csv"}},
            "'../monday.csv' is not a path below the project's folder. Write names joined by",
        ),
        (
            {"traffic": TRAFFIC, "slo": {"percentile": 99}},
            "An objective needs ttft, itl or availability. Add, for example, ttft: 800ms",
        ),
        (
            {"traffic": TRAFFIC, "slo": {"ttft": "800"}},
            "'800' is not a duration. Write milliseconds or seconds above 0: 800ms or 1.5s",
        ),
        ({"traffic": TRAFFIC, "slo": {"ttft": "0ms"}}, "'0ms' is not a duration"),
    ],
)
def test_wrong_traffic_is_rejected_with_a_remedy(fields, message):
    with pytest.raises(ValidationError) as caught:
        vllm(**fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("accelerator", "sequences", "tokens"),
    [("nvidia-l40s", 256, 2048), ("nvidia-h100", 1024, 8192), ("nvidia-a100-80gb", 256, 2048)],
)
def test_batches_have_the_defaults_of_vllm_on_the_accelerator(accelerator, sequences, tokens):
    batching = vllm().batching(lookup(accelerator))
    assert (batching.max_sequences, batching.max_tokens_per_step) == (sequences, tokens)
    chosen = vllm(maxNumSeqs=8, maxNumBatchedTokens=512).batching(lookup(accelerator))
    assert (chosen.max_sequences, chosen.max_tokens_per_step) == (8, 512)
