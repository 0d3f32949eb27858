"""Servers run without development features."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container

OFF = ("", "0", "false", "no", "off")
# vLLM's guide to security (2026): endpoints of development and of profiling ask for no key; adapters load from any path or hub.
VARIABLES = ("VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_TORCH_PROFILER_DIR")
# vLLM reads files of the pod that a prompt names; SGLang runs code that comes with a request.
# A caller's chat template and tensors are code and pickles (CVE-2025-61620, CVE-2025-62164); Triton's doors for Vertex AI and SageMaker
# take no key of its restricted APIs.
OPTIONS = (
    "--allow-sagemaker",
    "--allow-vertex-ai",
    "--allowed-local-media-path",
    "--enable-custom-logit-processor",
    "--enable-prompt-embeds",
    "--profiler-config",
    "--trust-request-chat-template",
)
ORIGINS, CREDENTIALS = "--allowed-origins", "--allow-credentials"


def _check(container: Container, _: Parameters) -> Findings:
    for name, entry in container.environment().items():
        if name in VARIABLES and (not entry.at("valueFrom").absent or entry.at("value").text().lower() not in OFF):
            yield found(entry, "enables a development feature")
    for word in container.arguments:
        name, equals, value = word.text.partition("=")
        # A dot leads into an option that is a map: --profiler-config.profiler.
        if name.replace("_", "-").partition(".")[0] in OPTIONS and not (equals and value.lower() in OFF):
            yield found(word.field, "enables a development feature")
        if name == CREDENTIALS and "*" in (container.option(ORIGINS) or "*"):
            yield found(word.field, "lets every website send requests with the browser's credentials")


RULE = Rule(
    id="model-disallow-development-switches",
    title="Servers run without development features",
    severity=Severity.CRITICAL,
    refs=("inference", "vLLM: Security"),
    why="These switches let a client call any method of the workers, load weights from a hub or read files of the pod",
    remedy=(
        "remove VLLM_SERVER_DEV_MODE, VLLM_ALLOW_RUNTIME_LORA_UPDATING, VLLM_TORCH_PROFILER_DIR and the named options; set "
        "--allowed-origins to your own origins"
    ),
    subject=CONTAINERS,
    check=_check,
)
