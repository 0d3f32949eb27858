"""Memory by arithmetic: the expected bytes are those of the published configurations, by hand."""

from pathlib import Path
from typing import Any

import pytest

from inferplan.predict.memory import bytes_per_token, memory_of

LLAMA_8B = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
SIZES: list[tuple[dict[str, Any], int, int, float]] = [
    # 32 layers x 8 heads x 128 wide x keys and values x 2 bytes.
    (LLAMA_8B, 1, 16, 131072),
    (LLAMA_8B, 4, 16, 32768),
    # Eight heads on sixteen accelerators: one copy each.
    (LLAMA_8B, 16, 16, 16384),
    (LLAMA_8B, 1, 8, 65536),
    # Latent attention: (512 + 64) x 61 layers x 2 bytes, on every accelerator.
    (
        {
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
        },
        8,
        16,
        70272,
    ),
    # A layer in four keeps tokens.
    (LLAMA_8B | {"full_attention_interval": 4}, 1, 16, 32768),
    (LLAMA_8B | {"layer_types": ["linear_attention", "full_attention"] * 16}, 1, 16, 65536),
    (LLAMA_8B | {"hybrid_override_pattern": "MEM*EMEM*"}, 1, 16, 8192),
    # Blocks with heads of their own, and one without attention.
    (
        LLAMA_8B
        | {
            "num_key_value_heads": None,
            "block_configs": [
                {"attention": {"n_heads_in_group": 8}},
                {"attention": {"n_heads_in_group": 4}},
                {"attention": {"n_heads_in_group": None, "no_op": True}},
            ],
        },
        1,
        16,
        (4 + 8) * 128 * 2 * 2,
    ),
]


@pytest.mark.parametrize(("config", "size", "bits", "expected"), SIZES)
def test_the_cache_of_a_token_is_that_of_its_layers_and_heads(config, size, bits, expected):
    assert bytes_per_token(config, size=size, bits=bits) == expected


def facts(path: str, size: str, *, parallel: int = 1) -> dict[str, Any]:
    return {
        "weights": {"path": path, "size": size},
        "batching": {
            "framework": "vllm",
            "tensorParallelSize": parallel,
            "pipelineParallelSize": 1,
            "maxTokensPerStep": 2048,
            "memoryShare": 0.9,
        },
    }


@pytest.mark.parametrize(
    ("path", "size", "accelerator", "parallel", "tokens"),
    [
        # 24 GB of an L4 hold 16 GiB of weights and no 131,072 tokens of 128 KiB.
        ("llm/Mistral-7B-v0.3", "14Gi", "nvidia-l4", 1, (20_000, 50_000)),
        ("llm/Qwen2.5-72B-Instruct-AWQ", "39Gi", "nvidia-a100-40gb", 2, (20_000, 120_000)),
        ("llm/Mixtral-8x7B-v0.1", "87Gi", "gaudi-2", 2, (500_000, 800_000)),
        ("llm/Kimi-K2-Instruct", "959Gi", "gaudi-2", 8, (-(10**9), 0)),
    ],
)
def test_accelerators_without_measured_kernels_have_their_memory(
    path, size, accelerator, parallel, tokens
):
    known = memory_of(facts(path, size, parallel=parallel), {"accelerator": accelerator})
    assert known is not None
    low, high = tokens
    assert low <= known[1] <= high


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("llm/Llama-3.3-70B-Instruct-AWQ", "40Gi"),
        ("llm/Llama-3.3-70B-Instruct-GPTQ-Int4", "38Gi"),
        ("llm/Llama-3.3-70B-Instruct-GGUF", "43Gi"),
        ("llm/Llama-3.3-70B-Instruct-FP8", "68Gi"),
        ("llm/llama-3.3-70b-instruct.Q4_K_M.gguf", "43Gi"),
    ],
)
def test_quantized_copies_have_their_stated_size_and_the_cache_of_their_layers(path, size):
    pytest.importorskip("aiconfigurator_core")
    known = memory_of(facts(path, size), {"accelerator": "nvidia-h100"})
    assert known is not None
    # 80 layers x 8 heads x 128 wide x keys and values x 2 bytes.
    assert (known[0].weights, known[0].per_token) == (int(size[:-2]) << 30, 327_680)


def test_mxfp4_is_sized_by_its_stated_size():
    pytest.importorskip("aiconfigurator_core")
    from inferplan.predict.forecast import forecasts
    from tests.unit.predict.facts import model, stack

    subjects = stack(
        model(traffic={"model": "openai/gpt-oss-120b"}, weights={"path": "own", "size": "61Gi"}),
        accelerator="nvidia-h100",
    )
    [each] = forecasts(subjects, Path())
    assert each.memory is not None
    assert (each.source, each.memory.weights) == ("predicted", 61 << 30)


def test_131072_tokens_do_not_fit_one_l4():
    pytest.importorskip("aiconfigurator_core")
    from inferplan.predict.forecast import forecasts
    from tests.unit.predict.facts import model, stack

    subjects = stack(
        model(weights={"path": "own", "size": "16Gi"}, batching={"contextLength": 131_072}),
        accelerator="nvidia-l4",
    )
    [each] = forecasts(subjects, Path())
    assert each.source == "unknown"
    assert each.problems[0].startswith("contextLength 131,072 is more than the 27,911 tokens")


def test_models_that_nobody_listed_and_weights_without_size_have_none():
    assert memory_of(facts("llm/own-model", "14Gi"), {"accelerator": "nvidia-l4"}) is None
    assert memory_of(facts("llm/Mistral-7B", ""), {"accelerator": "nvidia-l4"}) is None
