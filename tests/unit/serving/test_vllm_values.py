"""What vLLM rejects at its start is an error of the stack file; what it accepts is none.

The arguments are those of public reports, each tried with the real engine (vLLM 0.32 on CPU), and
further members of their kinds.
"""

import json
from pathlib import Path

import pytest
import yaml

from inferplan.components.serving.vllm.values import known_options, values
from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate
from tests.unit.stackfile.test_natural_mistakes import VLLM, mistaken

PRINTED = json.loads(Path(__file__).with_name("vllm-flags-0.32.0.json").read_text())["flags"]
# Values that the parser of 0.32 listed and its classes state otherwise or not at all.
OTHER_VALUES = {
    "--all2all-backend",
    "--gdn-prefill-backend",
    "--kda-decode-backend",
    "--kda-prefill-backend",
    "--linear-backend",
    "--log-level",
    "--mm-processor-device",
    "--moe-backend",
    "--sparse-indexer-topk-backend",
}


def test_the_options_are_those_that_vllm_printed():
    printed = {flag for each in PRINTED for flag in each["flags"] if flag.startswith("--")}
    assert known_options("0.32.0") == printed


def test_enumerated_values_are_those_that_the_parser_printed():
    differing = {
        flag
        for each in PRINTED
        if each.get("choices")
        for flag in each["flags"]
        if flag.startswith("--")
        and {*each["choices"]} - {"None"}
        != {*values("0.32.0")["options"][flag].get("values", ())} - {"None"}
    }
    assert differing == OTHER_VALUES


WRONG: list[tuple[list[str], str]] = [
    (["--guided-decoding-backend", "xgrammar"], "--structured-outputs-config.backend="),
    (["--rope-scaling", "{}"], "--hf-overrides"),
    (["--task", "embed"], "--runner pooling with --convert"),
    (["--enable-reasoning"], "--reasoning-parser alone"),
    (["--speculative-model", "draft"], "--speculative-config"),
    (["--num-scheduler-steps", "8"], "Remove it"),
    (["--swap-space", "4"], "Remove it"),
    (["--mem-fraction-static", "0.8"], "--gpu-memory-utilization"),
    (["--enforce-eagr"], "Did you mean '--enforce-eager'?"),
    (["--max_cpu_lorras=2"], "'--max-cpu-lorras' is not an option of vLLM 0.33.0"),
    (["--enable-auto-tool-choice", "--tool-call-parser", "llama3"], "llama3_json"),
    (["--tool-call-parser=qwen3"], "qwen3_coder"),
    (["--reasoning-parser", "deepseek-r1"], "deepseek_r1"),
    (["--enable-auto-tool-choice"], "needs --tool-call-parser"),
    (["--speculative-config", '{"method": "lookahead"}'], "is not a value of --speculative-config"),
    (["--speculative-config", '{"num_spec_tokens": 3}'], "num_speculative_tokens"),
    (["--speculative-config.method=eagle9"], "eagle3"),
    (
        ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_prefill"}'],
        "kv_producer",
    ),
    (["--kv-transfer-config", '{"kv_connector": "Nixl", "kv_role": "kv_both"}'], "NixlConnector"),
    (["--kv-transfer-config", "{kv_role: kv_both}"], "is not a JSON object"),
    (
        ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
        "this model has none",
    ),
    (
        [
            "--kv-transfer-config",
            '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_consumer"}',
        ],
        "kv_consumer moves the KV cache",
    ),
    (
        [
            "--kv-transfer-config.kv_connector=MooncakeConnector",
            "--kv-transfer-config.kv_role=kv_producer",
        ],
        "OffloadingConnector",
    ),
    (["--structured-outputs-config.backend=lmfe"], "lm-format-enforcer"),
    (["--limit-mm-per-prompt", "image=2"], """Write '{"image": 2}'"""),
    (["--runner", "embed"], "pooling"),
    (["--convert", "reward"], "Allowed: "),
    (["--attention-backend", "FLASHINFER2"], "FLASHINFER"),
    (["--scheduling-policy", "priorities"], "priority"),
    (["--seed", "5", "--seed", "6"], "stands twice"),
    (["--max-logprobs", "many"], "is not a number"),
    (["--stream-interval"], "needs a value"),
    (["--enforce-eager", "true"], "vLLM says: unrecognized arguments: true"),
    (["--enforce-eager=true"], "takes no value"),
    (["--seed", "5", "6"], "'6' is an extra word after --seed"),
    (["Qwen/Qwen3-8B", "--seed=3"], "is an extra word before the first option"),
    (["--max-logprobs", "5", "ten"], "'ten' is an extra word after --max-logprobs"),
    (["--kv-events-config", '{"hwm": "many"}'], "is not a number"),
    (["--async-scheduling", "--speculative-config", '{"method": "suffix"}'], "does not support"),
    (["--tokenizer-mode", "fast"], "hf"),
    (["--config-format=json"], "mistral"),
    (["--attention-config.backend=FLASHINFER9"], "FLASHINFER"),
    (["--compilation-config", '{"cudagraph_mode": "FULL_ALL"}'], "FULL_DECODE_ONLY"),
    (["--compilation-config.mode=VLLM"], "VLLM_COMPILE"),
    (
        ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": "some"}'],
        "is not a number",
    ),
    (["--speculative-config", '{"method": "ngram"}'], "needs num_speculative_tokens"),
    (
        [
            "--speculative-config.method=ngram",
            "--speculative-config.num_speculative_tokens=2",
            "--speculative-config.prompt_lookup_min=4",
            "--speculative-config.prompt_lookup_max=3",
        ],
        "prompt_lookup_min=4 must be <= prompt_lookup_max=3",
    ),
    (
        ["--structured-outputs-config", '{"disable_any_whitespace": true}'],
        "needs backend xgrammar or guidance",
    ),
    (
        ["--kv-transfer-config", '{"kv_connector": "LMCacheConnectorV1"}'],
        "has kv_connector without kv_role",
    ),
    (["--hf-overrides", '{"rope_scaling": {"factor": 4.0}}'], "has no rope_type"),
    (["--enable-log-outputs"], "needs --enable-log-requests"),
    (
        ["--attention-backend=FLASHINFER", "--attention-config.backend=FLASHINFER"],
        "set the same value",
    ),
]
RIGHT: list[list[str]] = [
    ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
    ["--runner", "pooling", "--convert", "embed"],
    [
        "--speculative-config",
        '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}',
    ],
    ["--limit-mm-per-prompt", '{"image": 2}'],
    ["--chat-template", "/models/chat.jinja"],
    ["--hf-overrides", '{"max_position_embeddings": 2048}'],
    ["--compilation-config", '{"mode": 3}'],
    ["--compilation-config.mode=3"],
    ["-O3"],
    ["--no-enable-chunked-prefill"],
    ["--max-log-len", "100", "--seed=-1"],
    ["--tool-parser-plugin", "/models/own.py", "--tool-call-parser", "own"],
    [
        "--kv-transfer-config",
        '{"kv_connector": "Own", "kv_role": "kv_both", "kv_connector_module_path": "own.py"}',
    ],
    ["--kv-transfer-config", '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}'],
    ["--kv-transfer-config", '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}'],
    ["--mm_processor_cache_gb", "0"],
    ["--cudagraph-capture-sizes", "1", "2", "4"],
    ["--override-generation-config", '{"temperature": 0.2}'],
    ["--reasoning-parser", "qwen3"],
    ["--structured-outputs-config.backend=xgrammar"],
    ["--attention-backend", "FLASHINFER"],
    ["--attention-backend", "flash_attn"],
    ["--compilation-config", '{"cudagraph_mode": "full_and_piecewise", "mode": 3}'],
    ["--compilation-config.mode", "vllm_compile"],
    ["--tokenizer-mode", "mistral", "--config-format=hf"],
    [
        "--structured-outputs-config.backend=guidance",
        "--structured-outputs-config.disable_any_whitespace=true",
    ],
    ["--cudagraph-capture-sizes", "1", "2", "--seed", "-1"],
    ["--hf-overrides", '{"rope_parameters": {"rope_theta": 500000.0}}'],
    ["--enable-log-requests", "--enable-log-outputs"],
    ["--max-cpu-loras", "4"],
]


def lines_of(folder: Path, path: str, value: object) -> list[str]:
    file = folder / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(mistaken("local", path, json.dumps(value)), sort_keys=False))
    stack = read_stack(file)
    try:
        settings = validate(stack)
    except InvalidStack as error:
        return [f"error {each}" for each in error.lines]
    return list(advised(settings, stack))


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[" ".join(each) for each, _ in WRONG])
def test_what_ends_the_server_at_its_start_is_an_error_with_its_line(tmp_path, arguments, words):
    (line,) = lines_of(tmp_path, f"{VLLM}.extraArgs", arguments)
    assert line.startswith("error ")
    assert f" {VLLM}.extraArgs[" in line
    assert words in line


@pytest.mark.parametrize("arguments", RIGHT, ids=[" ".join(each) for each in RIGHT])
def test_what_vllm_accepts_is_no_error(tmp_path, arguments):
    assert lines_of(tmp_path, f"{VLLM}.extraArgs", arguments) == []


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("quantization", "4bit", "compressed-tensors"),
        ("kvCacheDtype", "fp4", "nvfp4"),
        ("maxNumBatchedTokens", 2, "Raise maxNumBatchedTokens to at least 4"),
        ("env", {"VLLM_KV_CACHE_LAYOUT": "NDH"}, "NHD"),
        ("env", {"VLLM_WORKER_MULTIPROC_METHOD": "thread"}, "spawn"),
        ("env", {"VLLM_ENGINE_READY_TIMEOUT_S": "10m"}, "is not a number"),
        ("env", {"VLLM_USE_FLASHINFER_SAMPLER": "true"}, "is not a number"),
        ("env", {"VLLM_LOGGING_LEVEL": "verbose"}, "WARNING"),
    ],
)
def test_fields_and_variables_have_the_values_of_vllm(tmp_path, field, value, words):
    tree = mistaken("local", f"{VLLM}.maxNumSeqs", "4")
    model = tree["config"]["inferplan:models"]["llama-3-8b"]
    model[field] = value
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    (line,) = error.value.lines
    assert words in line


def test_a_variable_that_vllm_no_longer_reads_is_a_note(tmp_path):
    (note,) = lines_of(tmp_path, f"{VLLM}.env", {"VLLM_ATTENTION_BACKEND": "FLASHINFER"})
    assert "does not read VLLM_ATTENTION_BACKEND" in note
    assert not note.startswith("error")


def test_another_release_gets_a_note_because_its_options_differ(tmp_path):
    tree = mistaken("local", f"{VLLM}.extraArgs", '["--task", "embed"]')
    model = tree["config"]["inferplan:models"]["llama-3-8b"]
    model["image"] = "docker.io/vllm/vllm-openai:v0.11.0"
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    stack = read_stack(file)
    notes = [each for each in advised(validate(stack), stack) if "--task" in each]
    assert len(notes) == 1
    assert "This is by the options of vLLM 0.33.0." in notes[0]


def test_no_message_repeats_what_may_be_a_secret(tmp_path):
    canary = "hunter2-Zq8vK3xP0mWd7LtR5sYb"
    for arguments in (
        ["--kv-transfer-config", canary],
        ["--tool-call-parser", canary],
        ["--kv-transfer-config", json.dumps({canary: 1})],
        ["--max-logprobs", canary],
    ):
        for line in lines_of(tmp_path, f"{VLLM}.extraArgs", arguments):
            assert canary not in line


def test_without_chunked_prefill_a_step_holds_a_prompt(tmp_path):
    tree = mistaken("local", f"{VLLM}.extraArgs", '["--no-enable-chunked-prefill"]')
    tree["config"]["inferplan:models"]["llama-3-8b"] |= {
        "maxModelLen": 8192,
        "maxNumBatchedTokens": 2048,
    }
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack, match="Raise maxNumBatchedTokens to at least 8192"):
        validate(read_stack(file))
