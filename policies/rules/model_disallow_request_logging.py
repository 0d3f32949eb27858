"""Prompts and answers are not logged."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container

# vLLM's first two, SGLang's last; vLLM's variable prints whole answers.
OPTIONS = ("--enable-log-requests", "--enable-log-outputs", "--log-requests")
VARIABLES = ("VLLM_DEBUG_LOG_API_SERVER_RESPONSE",)
OFF = ("0", "false", "no", "off")


def _check(container: Container, _: Parameters) -> Findings:
    for word in container.arguments:
        name, _equals, value = word.text.partition("=")
        if name.replace("_", "-") in OPTIONS and value.lower() not in OFF:
            yield found(word.field, "logs prompts")
    for name, entry in container.environment().items():
        if name in VARIABLES and entry.at("value").text().lower() not in ("", *OFF):
            yield found(entry, "logs answers")


RULE = Rule(
    id="model-disallow-request-logging",
    title="Prompts and answers are not logged",
    severity=Severity.HIGH,
    refs=("inference",),
    why="Logs are kept longer than requests and read by more people, and prompts contain names, contracts and keys",
    remedy=(
        "remove --enable-log-requests, --enable-log-outputs (SGLang: --log-requests) and VLLM_DEBUG_LOG_API_SERVER_RESPONSE; "
        "use metrics to count requests"
    ),
    subject=CONTAINERS,
    check=_check,
)
