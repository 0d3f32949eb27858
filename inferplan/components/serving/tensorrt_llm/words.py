"""Arguments of TensorRT-LLM's programs and parameters of its backend: those that users can set, and those that a field sets."""

from __future__ import annotations

from collections.abc import Mapping

# Arguments of tensorrt_llm.LLM that users cannot set, each with the reason.
LLM_ARGS = {
    "model": "weights says where the model is",
    "tokenizer": "weights says where the model is",
    "backend": "it is pytorch",
    "tensor_parallel_size": "use the field tensorParallelSize",
    "pipeline_parallel_size": "use the field pipelineParallelSize",
    "max_batch_size": "use the field maxBatchSize",
    "max_seq_len": "use the field maxSeqLen",
    "max_num_tokens": "use the field maxNumTokens",
    "dtype": "use the field dtype",
    "trust_remote_code": "it runs code from the model repository",
    "triton_config": "inferplan writes it",
}
# Parameters of the backend with defaults of its own (triton_backend/all_models/inflight_batcher_llm/tensorrt_llm/config.pbtxt, 1.x).
PARAMETERS = frozenset((
    "batch_scheduler_policy", "cancellation_check_period_ms", "cross_kv_cache_fraction", "cuda_graph_cache_size", "cuda_graph_mode",
    "decoding_mode", "eagle_choices", "enable_chunked_context", "enable_context_fmha_fp32_acc", "enable_kv_cache_reuse",
    "gpu_weights_percent", "guided_decoding_backend", "iter_stats_max_iterations", "kv_cache_host_memory_bytes",
    "kv_cache_onboard_blocks", "lookahead_ngram_size", "lookahead_verification_set_size", "lookahead_window_size",
    "lora_cache_gpu_memory_fraction", "lora_cache_host_memory_bytes", "lora_cache_max_adapter_size", "lora_cache_optimal_adapter_size",
    "max_attention_window_size", "max_beam_width", "max_tokens_in_paged_kv_cache", "medusa_choices", "multi_block_mode",
    "normalize_log_probs", "request_stats_max_iterations", "sink_token_length", "speculative_decoding_fast_logits",
    "stats_check_period_ms", "xgrammar_tokenizer_info_path",
))  # fmt: skip
# Options of the two programs that a field or this project sets.
CONVERT_OPTIONS = ("--model_dir", "--output_dir", "--dtype", "--tp_size", "--pp_size")
BUILD_OPTIONS = (
    *("--checkpoint_dir", "--output_dir", "--workers", "--max_batch_size", "--max_seq_len", "--max_num_tokens", "--max_input_len"),
    *("--model_config", "--build_config", "--model_cls_file", "--model_cls_name"),
)


def option_list(values: Mapping[str, object]) -> list[str]:
    """Return `values` as options of a command line, without those that are None."""
    return [f"{option}={value}" for option, value in values.items() if value is not None]
