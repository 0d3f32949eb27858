"""Containers name a program that their image has."""

from __future__ import annotations

from images.catalogue import family_of
from images.starts import missing_programs
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects import kserve
from policies.subjects.pods import CONTAINERS, RAY_CLUSTERS, Container

# KubeRay writes the command of Ray's containers, and KServe that of its models.
_WRITTEN_BY_OPERATORS = {*RAY_CLUSTERS, *kserve.KINDS}


def _check(container: Container, _: Parameters) -> Findings:
    if container.ephemeral or (container.pod.resource.kind in _WRITTEN_BY_OPERATORS and not container.init):
        return
    facts = family_of(container.at("image").text())
    command = container.at("command")
    words = [*command.texts(), *container.at("args").texts()]
    if command.absent:
        if facts is not None and not facts.keeps_entrypoint:
            yield found(command, "is not set, so the image's entrypoint decides what the arguments mean")
        return
    if facts is not None and facts.programs and missing_programs(facts, words):
        yield found(command, f"is a program that this image does not have; it has {', '.join(facts.programs)}")


RULE = Rule(
    id="image-require-command",
    title="Containers name a program that their image has",
    severity=Severity.HIGH,
    refs=("inference",),
    why=(
        "Entrypoints differ between images and releases. For example, the entrypoint of vLLM's Gaudi image is a launcher that "
        "takes a model for a mode and exits"
    ),
    remedy="set command to the program and args to its arguments; images/catalogue.toml lists the programs of known images",
    subject=CONTAINERS,
    check=_check,
)
