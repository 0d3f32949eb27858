"""vLLM servers require an API key."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.serving import starts_vllm

VARIABLE, OPTION = "VLLM_API_KEY", "--api-key"


def _check(container: Container, _: Parameters) -> Findings:
    # Words of a server that other pods ask: a port, and the command that listens.
    if container.init or container.ephemeral or not starts_vllm(container) or not any(True for _ in container.at("ports").each()):
        return
    if container.option(OPTION):
        return
    entry = container.environment().get(VARIABLE)
    if entry is None:
        yield found(container.at("env"), f"has no {VARIABLE}, so anyone who can reach the port can use the model")
        return
    reference = entry.at("valueFrom", "secretKeyRef")
    if reference.absent and not entry.at("value").text():
        yield found(entry.at("value"), "is empty, so anyone who can reach the port can use the model")
    if reference.at("optional").flag():
        yield found(reference.at("optional"), "lets the server start without its key")


RULE = Rule(
    id="model-require-server-key",
    title="vLLM servers require an API key",
    severity=Severity.HIGH,
    refs=("inference", "vLLM: Security, API key"),
    why="A pod that gets past a network policy reaches the model without the gateway. The server's own key still stops it",
    remedy="set env VLLM_API_KEY with valueFrom.secretKeyRef, without optional",
    subject=CONTAINERS,
    check=_check,
)
