"""NFS volumes set their mount options."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(volume: Resource, given: Parameters) -> Findings:
    if volume.at("spec", "nfs").absent:
        return
    options = volume.at("spec", "mountOptions").texts()
    for wanted in given["options"]:
        if not any(option == wanted or option.startswith(f"{wanted}=") for option in options):
            yield found(volume.at("spec", "mountOptions"), f"does not say {wanted}")


RULE = Rule(
    id="volume-require-nfs-options",
    title="NFS volumes set their mount options",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="The defaults of NFS clients are slow, and hang in different ways on different nodes",
    remedy="set mountOptions: [nfsvers=4.1, rsize=1048576, wsize=1048576, hard, timeo=600, retrans=2, noresvport]",
    subject=objects("kubernetes:core:PersistentVolume"),
    check=_check,
    parameters={
        "options": Parameter(
            default=["nfsvers", "hard", "noresvport"],
            description="Mount options, or their names, that every NFS volume must set",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
