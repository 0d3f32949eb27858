"""VLLM is new enough."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.images import at_least, image_of
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.serving import is_vllm

NAMED = re.compile(r"(?:^|[/:_-])v(?:llm-)?(\d+\.\d+(?:\.\d+)?)")
# A tag that is the version alone; a calendar's, as 25.09, tells nothing of vLLM.
BARE = re.compile(r"(\d\.\d+(?:\.\d+)?)(?![\d.])")


def _check(container: Container, given: Parameters) -> Findings:
    image = image_of(container.at("image"))
    if "vllm" in image.base or is_vllm(container):
        match = NAMED.search(image.base) or NAMED.search(f":{image.tag}") or BARE.match(image.tag)
        if match is None:
            yield found(container.at("image"), "does not tell the version of vLLM")
        elif not at_least(match.group(1), given["version"]):
            yield found(container.at("image"), f"is older than vLLM {given['version']}")


RULE = Rule(
    id="model-require-vllm-floor",
    title="vLLM is new enough",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "CVE-2026-47155",
    ),
    why="Before 0.22 a pinned revision did not hold for every file of the model",
    remedy="take an image of vLLM 0.22 or newer, whose tag names the version",
    subject=CONTAINERS,
    check=_check,
    parameters={"version": Parameter(default="0.22", description="The oldest vLLM that may serve", schema={"type": "string"})},
)
