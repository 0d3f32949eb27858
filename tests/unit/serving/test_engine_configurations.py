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
    "cudagraph-mode",
    "lora-rank-value",
    "flag-with-value",
    "dtype-fp16",
    "rope-without-type",
    "cpu-loras-below-loras",
    "ngram-window",
    "ngram-without-count",
    "template-format",
    "whitespace-of-outlines",
    "timeout-with-unit",
    "log-level",
    "events-publisher",
    "compilation-level",
    "tokenizer-mode",
}
# Errors without the engine's own sentence: parallel sizes are judged by the nodes, the port is fixed,
# and the others list the allowed values.
WITHOUT = {
    *("tensor-parallel-heads", "environment-port-uri", "lora-rank-value", "dtype-fp16"),
    *("template-format", "events-publisher", "compilation-level", "tokenizer-mode"),
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


@pytest.mark.parametrize("name", sorted(BEFORE - WITHOUT))
def test_an_error_quotes_the_sentence_of_the_engine(tmp_path, name):
    errors, _ = lines_about(tmp_path, vllm_fields(ROWS[name]))
    said = (
        ROWS[name]["engine_says"].removeprefix("vllm: error: ").removeprefix("vllm serve: error: ")
    )
    assert "vLLM says: " in errors[0]
    if said.startswith("unrecognized"):
        said = said.rpartition(" ")[0]
    assert said.strip().rstrip(".,") in errors[0]


UPGRADES = {each["id"]: each for each in records("vllm", ["upgrades"])}


@pytest.mark.parametrize("name", UPGRADES)
def test_an_option_left_over_from_an_upgrade_is_an_error(tmp_path, name):
    row = UPGRADES[name]
    errors, _ = lines_about(tmp_path, vllm_fields(row))
    assert bool(errors) == (row["outcome"] != "works")
    assert all(f" models.{MODEL}." in each for each in errors)


def test_an_error_about_a_level_or_a_count_says_what_to_write(tmp_path):
    [level], _ = lines_about(tmp_path, vllm_fields(UPGRADES["compilation-number"]))
    assert "Write '{\"mode\": 3}'. vLLM says: Input should be an object" in level
    [count], _ = lines_about(tmp_path, vllm_fields(UPGRADES["mm-count-word"]))
    assert "--limit-mm-per-prompt.video: 'three' is not a number" in count


def test_a_value_that_may_be_a_secret_is_not_quoted(tmp_path):
    secret = "sk-" + "9f8e7d6c" * 4
    for option in ("--tool-call-parser", "--hf-tokn"):
        errors, _ = lines_about(tmp_path, {"extraArgs": [option, secret]})
        assert errors
        assert secret not in "".join(errors)
