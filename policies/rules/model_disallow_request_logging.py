"""Prompts and answers stay out of logs."""

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
            yield found(word.field, "writes what users ask into the log")
    for name, entry in container.environment().items():
        if name in VARIABLES and entry.at("value").text().lower() not in ("", *OFF):
            yield found(entry, "writes what users are answered into the log")


RULE = Rule(
    id="model-disallow-request-logging",
    title="Prompts and answers stay out of logs",
    severity=Severity.HIGH,
    refs=("inference",),
    why="A log is kept longer than a request, is read by more people than a model, and holds whatever users pasted: names, contracts, keys",
    remedy="remove --enable-log-requests, --enable-log-outputs (SGLang: --log-requests) and VLLM_DEBUG_LOG_API_SERVER_RESPONSE; count requests by metrics",
    subject=CONTAINERS,
    check=_check,
)
