"""Models bring no code."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container

NAMES = re.compile(r"(?i)^(VLLM_|HF_|TRANSFORMERS_)?TRUST_REMOTE_CODE$")
# argparse takes an option cut short as long as no other begins alike (vLLM 0.32 has --trust-request-... too).
SHORTEST, OPTION = "--trust-rem", "--trust-remote-code"
ON = ("", "1", "true", "yes", "on")


def _means_it(option: str) -> bool:
    return option.startswith(SHORTEST) and OPTION.startswith(option)


def _check(container: Container, _: Parameters) -> Findings:
    for word in container.arguments:
        name, _equals, value = word.text.partition("=")
        if _means_it(name.replace("_", "-")) and value.lower() in ON:
            yield found(word.field, "lets the model's files run as code")
    for name, entry in container.environment().items():
        if NAMES.match(name) and entry.at("value").text().lower() in ON:
            yield found(entry, "lets the model's files run as code")


RULE = Rule(
    id="model-disallow-trust-remote-code",
    title="Models bring no code",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "NSA-CISA: supply chain",
    ),
    why="With trust_remote_code the files of a model are programs that run beside the keys",
    remedy="remove --trust-remote-code, or exempt the one model whose code somebody has read",
    subject=CONTAINERS,
    check=_check,
)
