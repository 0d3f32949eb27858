"""The transfer of KV caches between the sides of a split model: vLLM's NixlConnector.

Options, variables and checks: vllm/distributed/kv_transfer of vLLM 0.32 and its
docs/features/nixl_connector_usage.md (read 2026-11).
"""

import json
from typing import Final

_PORT: Final = 5600
ARGUMENTS: Final = (
    "--kv-transfer-config="
    # Each side can also answer alone, and a decode server reads a prompt itself if its KV cache does
    # not arrive.
    + json.dumps(
        {
            "kv_connector": "NixlConnector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
        }
    ),
)
ENVIRONMENT: Final = {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(_PORT)}
# A prefill server tells decode servers this address.
POD_ENVIRONMENT: Final = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "status.podIP"}
# The router reads it (smg 1.13.0, 2026-11): without it, decode servers would read all prompts again.
ANNOTATIONS: Final = {"smg.ai/kv-connector": "NixlConnector"}
