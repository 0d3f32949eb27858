"""The sentences are those that vLLM 0.32 printed for configurations of public reports."""

import pytest

from inferplan.trial.verdict import Path, path_of, sentence_of

ENGINE_ENDED = """\
INFO 11-28 14:02:17 [launcher.py:195] Route: /inference/v1/abort_requests, Methods: POST
(EngineCore pid=1213) Process EngineCore:
(EngineCore pid=1213) Traceback (most recent call last):
(EngineCore pid=1213)   File "/opt/vllm/lora/worker_manager.py", line 140, in _load_adapter
(EngineCore pid=1213)     peft_helper.validate_legal(self.lora_config)
(EngineCore pid=1213) ValueError: LoRA rank 64 is greater than max_lora_rank 16.
(APIServer pid=1212) Traceback (most recent call last):
(APIServer pid=1212) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
VALIDATION = """\
Traceback (most recent call last):
  File "/opt/vllm/engine/arg_utils.py", line 1300, in create_model_config
pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig
  Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3). [type=value_error, input_value=ArgsKwargs((), {'model_co... 'shutdown_timeout': 0}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
USAGE = """\
usage: vllm serve [model_tag] [options]
vllm serve: error: argument --limit-mm-per-prompt: Value image=2 cannot be converted to <function loads>.
"""
SENTENCES = [
    (ENGINE_ENDED, "ValueError: LoRA rank 64 is greater than max_lora_rank 16."),
    (
        VALIDATION,
        "Total number of attention heads (4) must be divisible by tensor parallel size (3).",
    ),
    (
        USAGE,
        "argument --limit-mm-per-prompt: Value image=2 cannot be converted to <function loads>.",
    ),
    ("Killed\n", "Killed"),
    ("", "it printed nothing"),
]


@pytest.mark.parametrize(("log", "sentence"), SENTENCES)
def test_the_first_cause_in_a_log_is_the_sentence(log, sentence):
    assert sentence_of(log) == sentence


SETTINGS: dict[Path, list[str]] = {
    ("tensorParallelSize",): ["tensor_parallel_size", "3"],
    ("pipelineParallelSize",): ["pipeline_parallel_size", "2"],
    ("quantization",): ["quantization", "gptq"],
    ("extraArgs", 0): ["tool-call-parser", "llama3"],
    ("loraAdapters",): ["lora", "adapter"],
    ("env", "VLLM_HOST_IP"): ["VLLM_HOST_IP", "nowhere"],
}
ABOUT = [
    (SENTENCES[1][1], ("tensorParallelSize",)),
    ("Pipeline parallelism is not supported for this model.", ("pipelineParallelSize",)),
    ("Quantization method specified in the model config (awq) does not match", ("quantization",)),
    ("invalid tool call parser: llama3 (chose from {", ("extraArgs", 0)),
    ("LoRA rank 64 is greater than max_lora_rank 16.", ("loraAdapters",)),
    ("VLLM_HOST_IP 'nowhere' cannot be resolved", ("env", "VLLM_HOST_IP")),
    ("The model has no layers", ()),
]


@pytest.mark.parametrize(("sentence", "path"), ABOUT)
def test_a_sentence_leads_to_the_setting_that_it_is_about(sentence, path):
    assert path_of(sentence, SETTINGS) == path
