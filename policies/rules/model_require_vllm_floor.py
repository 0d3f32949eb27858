"""vLLM is recent enough."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.images import at_least, image_of
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.serving import is_vllm

NAMED = re.compile(r"(?:^|[/:_-])v(?:llm-)?([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
# A tag that is the version alone; a calendar's, as 25.09, tells nothing of vLLM.
BARE = re.compile(r"([0-9]\.[0-9]+(?:\.[0-9]+)?)(?![0-9.])")
# Images of vLLM itself: another server's image may have it in its name, as pytriton-vllm, with a version of its own.
OWN = re.compile(r"vllm([-_](openai|cpu|gaudi|rocm|neuron|xpu|tpu|hpu).*)?")


def _check(container: Container, given: Parameters) -> Findings:
    image = image_of(container.at("image"))
    if container.at("image").absent or not (OWN.fullmatch(image.base) or is_vllm(container)):
        return
    match = NAMED.search(image.base) or NAMED.search(f":{image.tag}") or BARE.match(image.tag)
    if match is None:
        # A digest alone names one build, chosen on purpose. The plan does not contain its version.
        if image.tag or not image.digest:
            yield found(container.at("image"), "does not state the version of vLLM")
    elif not at_least(match.group(1), given["version"]):
        yield found(container.at("image"), f"is older than vLLM {given['version']}")


RULE = Rule(
    id="model-require-vllm-floor",
    title="vLLM is recent enough",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "CVE-2026-47155",
    ),
    why="Before 0.22, a pinned revision did not apply to every file of the model",
    remedy="use an image of vLLM 0.22 or newer, with the version in its tag",
    subject=CONTAINERS,
    check=_check,
    parameters={"version": Parameter(default="0.22", description="Oldest version of vLLM that is allowed", schema={"type": "string"})},
)
