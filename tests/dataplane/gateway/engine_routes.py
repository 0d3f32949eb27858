"""Every route that vLLM serves, for the matrix: those that its own key guards, and those that it
leaves open.

SERVED is what vLLM 0.32.0 registers for a generating model (its route log, 2026-11). OTHERS are
routes of other tasks, of plug-ins and of development mode, from the documentation of 0.33
(docs/usage/security.md) and the API of the same version. ALLOWED says once more, on its own, what
may pass; it is not read from the code under test.
"""

from __future__ import annotations

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")

SERVED = (
    "/detokenize /docs /docs/oauth2-redirect /generative_scoring /health"
    " /inference/v1/abort_requests /inference/v1/generate /invocations /is_scaling_elastic_ep"
    " /kv_event_sources /load /metrics /openapi.json /ping /redoc /scale_elastic_ep /tokenize"
    " /v1/chat/completions /v1/chat/completions/batch /v1/chat/completions/derender"
    " /v1/chat/completions/render /v1/completions /v1/completions/derender /v1/completions/render"
    " /v1/messages /v1/messages/count_tokens /v1/messages/render /v1/models /v1/responses"
    " /v1/responses/render /v1/responses/resp_1 /v1/responses/resp_1/cancel /v1/systemone /version "
)

OTHERS = (
    "/ /abort_requests /classify /collective_rpc /cohere/v2/embed /get_world_size"
    " /init_weight_transfer_engine /inference/v1/models /is_paused /is_sleeping /pause /pooling"
    " /rerank /reset_encoder_cache /reset_mm_cache /reset_prefix_cache /resume /score /server_info"
    " /sleep /start_profile /start_weight_update /finish_weight_update /stop_profile"
    " /tokenizer_info /update_weights /v1/audio/transcriptions /v1/audio/translations"
    " /v1/embeddings /v1/load_lora_adapter /v1/realtime /v1/rerank /v1/score"
    " /v1/unload_lora_adapter /v1/files /v1/batches /v1/models/llama /v2/embed /v2/rerank /wake_up"
    " /api/server_info /v1 /v1/ "
)

TRITON_AND_RAY = (
    "/v2 /v2/health/live /v2/health/ready /v2/models/llama /v2/models/llama/config"
    " /v2/models/llama/ready /v2/models/llama/stats /v2/models/llama/infer"
    " /v2/models/llama/generate /v2/models/llama/generate_stream /v2/models/llama/versions/1/infer"
    " /v2/models/llama/trace/setting /v2/repository/index /v2/repository/models/llama/load"
    " /v2/repository/models/llama/unload /v2/systemsharedmemory/status /v2/cudasharedmemory/status"
    " /v2/logging /v2/trace/setting /-/routes /-/healthz /api/serve/applications/ /api/jobs/"
    " /api/cluster_status /nodes /serve /serve/app "
)

ALLOWED = {
    ("GET", "/v1/models"),
    ("GET", "/v1/models/llama"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/audio/translations"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/score"),
}
