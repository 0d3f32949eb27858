"""Container images."""

import re
from collections.abc import Iterator
from typing import Final

from inferplan.images.catalogue import family_of
from inferplan.images.floors import floors_above, remedy_of
from inferplan.images.starts import missing_programs, programs_called, unwritable_paths
from inferplan.kube.pod_templates import RAY_CLUSTERS
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    violation,
    violations,
)
from inferplan.policies.subjects import kserve
from inferplan.policies.subjects.pods import CONTAINERS, IMAGES, Container
from inferplan.policies.subjects.programs import at_least, image_of
from inferplan.policies.subjects.serving import engine_of

# Intel's registry has versions in the path, with the single tag latest (docs.habana.ai, Docker
# installation, read 2026-11).
_VERSION_IN_PATH: Final = re.compile(
    r"vault\.habana\.ai/gaudi-docker/[0-9]+\.[0-9]+\.[0-9]+/.+-[0-9]+\.[0-9]+\.[0-9]+\Z"
)
# KubeRay sets the command of Ray's containers, and KServe that of its models.
_WRITTEN_BY_OPERATORS = {*RAY_CLUSTERS, *kserve.KINDS}
_READ_ONLY = ("configMap", "secret", "projected", "downwardAPI", "image")
# Programs that write nothing, for example in a container that only pulls the image.
_WRITES_NOTHING = {"sh", "bash", "cp", "mkdir", "pause", "true"}
TRITON = re.compile(r"triton[-_]?(inference[-_]?)?server")
TRITON_RELEASE = re.compile(r"([0-9][0-9]\.[0-9][0-9])(?:-|$)")
VLLM_VERSION = re.compile(r"(?:^|[/:_-])v(?:llm[-_]?v?)?([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
# A tag that is only a version. A calendar version, for example 25.09, is not one of vLLM.
VERSION_TAG = re.compile(r"([0-9]\.[0-9]+(?:\.[0-9]+)?)(?![0-9.])")
# In the tag of another server's image, for example of ray-llm, only the name states vLLM's version.
NAMED_VLLM_VERSION = re.compile(r"vllm[-_]?v?([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
# Images of vLLM itself, not of a server with vllm in its name and its own version, for example
# pytriton-vllm.
VLLM_IMAGE = re.compile(r"vllm([-_](openai|cpu|gaudi|rocm|neuron|xpu|tpu|hpu).*)?")


# Images of Ray that contain vLLM, and the oldest release that may leave its version out: that of the
# image catalogue.
RAY_LLM, RAY_RELEASE = "ray-llm", "2.56"


@resource_rule(IMAGES)
def image_disallow_latest(image_field: Field, _: Parameters) -> Violations:
    image = image_of(image_field)
    if (
        not image.digest
        and not any(map(str.isdigit, image.tag))
        and not (image.tag and _VERSION_IN_PATH.match(image.name))
    ):
        yield violation(image_field, "names no version")


@resource_rule(CONTAINERS)
def image_require_command(container: Container, _: Parameters) -> Violations:
    if container.ephemeral or (
        container.pod.resource.kind in _WRITTEN_BY_OPERATORS and not container.init
    ):
        return
    facts = family_of(container.at("image").text())
    command = container.at("command")
    words = [*command.texts(), *container.at("args").texts()]
    if command.absent:
        if facts is not None and not facts.keeps_entrypoint:
            yield violation(
                command, "is not set, so the image's entrypoint decides what the arguments mean"
            )
        return
    if facts is not None and facts.programs and missing_programs(facts, words):
        yield violation(
            command,
            f"is a program that this image does not have; it has {', '.join(facts.programs)}",
        )


@resource_rule(IMAGES)
def image_require_digest(image_field: Field, _: Parameters) -> Violations:
    yield from violations(image_field, lambda field: not image_of(field).digest, "has no digest")


@resource_rule(IMAGES)
def image_require_floor(image_field: Field, _: Parameters) -> Violations:
    for floor in floors_above(image_field.text()):
        # Notes of the plan name the exceptions and their end.
        if "rule" not in floor and "exception" not in floor:
            yield violation(image_field, f"has known faults: {remedy_of(floor)}")


@resource_rule(CONTAINERS)
def image_require_writable_paths(container: Container, _: Parameters) -> Violations:
    if container.pod.resource.kind in kserve.KINDS:
        # KServe adds the volumes of a runtime to those of the service.
        return
    facts = family_of(container.at("image").text())
    read_only = container.at("securityContext", "readOnlyRootFilesystem")
    if facts is None or read_only.flag() is not True:
        return
    words = [*container.at("command").texts(), *container.at("args").texts()]
    if words and programs_called(words) <= _WRITES_NOTHING:
        return
    movable = {path.env for path in facts.writes}
    values = {
        name: entry.at("value").text()
        for name, entry in container.environment.items()
        if name in movable
    }
    missing = [each.path for each in unwritable_paths(facts, values, _writable_mounts(container))]
    if missing:
        yield violation(
            container.at("volumeMounts"),
            f"contains no writable volume for {', '.join(missing)}, which this image writes to",
        )


def _writable_mounts(container: Container) -> Iterator[str]:
    kinds = {
        volume.at("name").text(): [key for key, _ in volume.entries() if key != "name"]
        for volume in container.pod.at("volumes").each()
    }
    for mount in container.at("volumeMounts").each():
        kind = kinds.get(mount.at("name").text(), [])
        if mount.at("readOnly").flag() is not True and not any(each in _READ_ONLY for each in kind):
            yield mount.at("mountPath").text()


@resource_rule(IMAGES)
def image_restrict_registries(image_field: Field, parameters: Parameters) -> Violations:
    name = image_of(image_field).name
    if not any(
        name == allowed or name.startswith(f"{allowed.rstrip('/')}/")
        for allowed in parameters["registries"]
    ):
        yield violation(image_field, "comes from a registry that is not listed")


@resource_rule(IMAGES)
def model_require_triton_floor(image_field: Field, parameters: Parameters) -> Violations:
    image = image_of(image_field)
    if TRITON.search(image.base):
        match = TRITON_RELEASE.match(image.tag)
        if match is None or not at_least(match.group(1), parameters["release"]):
            yield violation(image_field, f"is not release {parameters['release']} or newer")


@resource_rule(CONTAINERS)
def model_require_vllm_floor(container: Container, parameters: Parameters) -> Violations:
    image = container.image
    own = VLLM_IMAGE.fullmatch(image.base)
    if container.at("image").absent or not (
        own or image.base == RAY_LLM or engine_of(container) == "vllm"
    ):
        return
    version = VLLM_VERSION if own else NAMED_VLLM_VERSION
    match = (
        VLLM_VERSION.search(image.base)
        or version.search(f":{image.tag}")
        or (VERSION_TAG.match(image.tag) if own else None)
    )
    if match is None:
        release = VERSION_TAG.match(image.tag) if image.base == RAY_LLM else None
        if release and at_least(release.group(1), RAY_RELEASE):
            return
        # A digest pins one build. If no tag of vLLM is next to it, the plan does not contain the
        # version.
        if not image.digest or (image.tag and (own or image.base == RAY_LLM)):
            yield violation(container.at("image"), "does not state the version of vLLM")
    elif not at_least(match.group(1), parameters["version"]):
        yield violation(container.at("image"), f"is older than vLLM {parameters['version']}")
