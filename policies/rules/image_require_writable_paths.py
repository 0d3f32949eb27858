"""Paths that an image's programs write to are writable volumes."""

from __future__ import annotations

from collections.abc import Iterator

from images.catalogue import family_of
from images.starts import programs_called, unwritable_paths
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects import kserve
from policies.subjects.pods import CONTAINERS, Container

_FIXED = ("configMap", "secret", "projected", "downwardAPI", "image")
# What gates and pre-pulls call in an image writes nothing.
_IDLE = {"sh", "bash", "cp", "mkdir", "pause", "true"}


def _check(container: Container, _: Parameters) -> Findings:
    if container.pod.resource.kind in kserve.KINDS:
        # KServe merges a runtime's volumes with those of the service that uses it.
        return
    facts = family_of(container.at("image").text())
    read_only = container.at("securityContext", "readOnlyRootFilesystem")
    if facts is None or read_only.flag() is not True:
        return
    words = [*container.at("command").texts(), *container.at("args").texts()]
    if words and programs_called(words) <= _IDLE:
        return
    named, movable = container.environment(), [path.env for path in facts.writes if path.env is not None]
    told = {name: named[name].at("value").text() for name in movable if name in named}
    missing = [each.path for each in unwritable_paths(facts, told, _writable(container))]
    if missing:
        yield found(container.at("volumeMounts"), f"contains no writable volume for {', '.join(missing)}, which this image writes to")


def _writable(container: Container) -> Iterator[str]:
    kinds = {
        volume.at("name").text(): [key for key, _ in volume.entries() if key != "name"] for volume in container.pod.at("volumes").each()
    }
    for mount in container.at("volumeMounts").each():
        kind = kinds.get(mount.at("name").text(), [])
        if mount.at("readOnly").flag() is not True and not any(each in _FIXED for each in kind):
            yield mount.at("mountPath").text()


RULE = Rule(
    id="image-require-writable-paths",
    title="Paths that an image's programs write to are writable volumes",
    severity=Severity.HIGH,
    refs=("inference",),
    why=(
        "With a read-only root file system such a program fails at start. For example, Gaudi's software exits with code 134 if "
        "it cannot write its logs"
    ),
    remedy="mount an emptyDir with a sizeLimit at the path, or set the variable that moves the path to a writable volume",
    subject=CONTAINERS,
    check=_check,
)
