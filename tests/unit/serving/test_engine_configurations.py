"""What validation says of the engine configurations of public reports: the right ones have no error,
and each wrong one that no file of a model decides has its line.
"""

from __future__ import annotations

import pytest

from tests.dataplane.serving.engine_configurations import MODEL, lines_about, records, vllm_fields

# The others need config.json, the tokenizer, files or the engine itself: `inferplan try` stops them
# (tests/dataplane/serving/test_vllm_trial.py).
BEFORE = {
    "guided-decoding-backend",
    "tool-parser-name",
    "tensor-parallel-heads",
    "speculative-method",
    "kv-role",
    "batched-tokens-below-length",
    "limit-mm-syntax",
    "environment-port-uri",
    "reasoning-parser-name",
    "kv-cache-dtype",
    "start-method",
    "sequences-above-tokens",
}
ROWS = {each["id"]: each for each in records("vllm")}


@pytest.mark.parametrize("name", ROWS)
def test_validation_rejects_what_it_can_know(tmp_path, name):
    errors, _ = lines_about(tmp_path, vllm_fields(ROWS[name]))
    if name in BEFORE:
        assert len(errors) == 1
        assert f" models.{MODEL}." in errors[0]
    else:
        assert errors == []
