"""Container images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from inferplan.images.catalogue import family_of
from inferplan.images.starts import missing_programs, programs_called, unwritable_paths
from inferplan.kube.pod_templates import RAY_CLUSTERS
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.rule import Level, Parameters, Severity, Violations, parameter, resource_rule, violation, violations
from inferplan.policies.subjects import kserve
from inferplan.policies.subjects.pods import CONTAINERS, IMAGES, Container
from inferplan.policies.subjects.programs import at_least, image_of
from inferplan.policies.subjects.serving import is_vllm

# Intel's registry has versions in the path, with the single tag latest (docs.habana.ai, Docker installation, read 2026-11).
_VERSION_IN_PATH: Final = re.compile(r"vault\.habana\.ai/gaudi-docker/[0-9]+\.[0-9]+\.[0-9]+/.+-[0-9]+\.[0-9]+\.[0-9]+\Z")
# KubeRay sets the command of Ray's containers, and KServe that of its models.
_WRITTEN_BY_OPERATORS = {*RAY_CLUSTERS, *kserve.KINDS}
_READ_ONLY = ("configMap", "secret", "projected", "downwardAPI", "image")
# Programs that write nothing, for example in a container that only pulls the image.
_WRITES_NOTHING = {"sh", "bash", "cp", "mkdir", "pause", "true"}
REGISTRIES = ["docker.io", "ghcr.io", "nvcr.io", "public.ecr.aws", "quay.io", "registry.k8s.io", "vault.habana.ai"]
TRITON_RELEASE = re.compile(r"([0-9][0-9]\.[0-9][0-9])(?:-|$)")
VLLM_VERSION = re.compile(r"(?:^|[/:_-])v(?:llm-)?([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
# A tag that is only a version. A calendar version, for example 25.09, is not one of vLLM.
VERSION_TAG = re.compile(r"([0-9]\.[0-9]+(?:\.[0-9]+)?)(?![0-9.])")
# Images of vLLM itself, not of a server with vllm in its name and its own version, for example pytriton-vllm.
VLLM_IMAGE = re.compile(r"vllm([-_](openai|cpu|gaudi|rocm|neuron|xpu|tpu|hpu).*)?")


@resource_rule(IMAGES, Severity.HIGH, "CIS EKS 5; CKV_K8S_14; inference")
def image_disallow_latest(image_field: Field, _: Parameters) -> Violations:
    """Images name their version.
    Why: The tag latest, or no tag, changes without notice, and two replicas can run different versions.
    Remedy: use name:<version> or name:<version>@sha256:<digest>.
    """
    image = image_of(image_field)
    if not image.digest and image.tag in ("", "latest") and not (image.tag and _VERSION_IN_PATH.match(image.name)):
        yield violation(image_field, "names no version")


@resource_rule(CONTAINERS, Severity.HIGH)
def image_require_command(container: Container, _: Parameters) -> Violations:
    """Containers name a program that their image has.
    Why: Entrypoints differ between images and releases. For example, the entrypoint of vLLM's Gaudi image is a launcher that takes a model
    for a mode and exits.
    Remedy: set command to the program and args to its arguments; inferplan/images/catalogue.toml lists the programs of known images.
    """
    if container.ephemeral or (container.pod.resource.kind in _WRITTEN_BY_OPERATORS and not container.init):
        return
    facts = family_of(container.at("image").text())
    command = container.at("command")
    words = [*command.texts(), *container.at("args").texts()]
    if command.absent:
        if facts is not None and not facts.keeps_entrypoint:
            yield violation(command, "is not set, so the image's entrypoint decides what the arguments mean")
        return
    if facts is not None and facts.programs and missing_programs(facts, words):
        yield violation(command, f"is a program that this image does not have; it has {', '.join(facts.programs)}")


@resource_rule(IMAGES, Severity.MEDIUM, "CKV_K8S_43; inference", level=Level.DISABLED)
def image_require_digest(image_field: Field, _: Parameters) -> Violations:
    """Images are pinned by digest.
    Why: A tag can be moved to another image, a digest cannot.
    Remedy: use name:tag@sha256:<digest>.
    """
    yield from violations(image_field, lambda field: not image_of(field).digest, "has no digest")


@resource_rule(CONTAINERS, Severity.HIGH)
def image_require_writable_paths(container: Container, _: Parameters) -> Violations:
    """Paths that an image's programs write to are writable volumes.
    Why: With a read-only root file system such a program fails at start. For example, Gaudi's software exits with code 134 if it cannot
    write its logs.
    Remedy: mount an emptyDir with a sizeLimit at the path, or set the variable that moves the path to a writable volume.
    """
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
    values = {name: entry.at("value").text() for name, entry in container.environment().items() if name in movable}
    missing = [each.path for each in unwritable_paths(facts, values, _writable_mounts(container))]
    if missing:
        yield violation(container.at("volumeMounts"), f"contains no writable volume for {', '.join(missing)}, which this image writes to")


def _writable_mounts(container: Container) -> Iterator[str]:
    kinds = {
        volume.at("name").text(): [key for key, _ in volume.entries() if key != "name"] for volume in container.pod.at("volumes").each()
    }
    for mount in container.at("volumeMounts").each():
        kind = kinds.get(mount.at("name").text(), [])
        if mount.at("readOnly").flag() is not True and not any(each in _READ_ONLY for each in kind):
            yield mount.at("mountPath").text()


@parameter("registries", REGISTRIES, "Registries, or paths in registries, that images may come from")
@resource_rule(IMAGES, Severity.HIGH, "CIS EKS 5.1.4; restrict-image-registries; inference")
def image_restrict_registries(image_field: Field, parameters: Parameters) -> Violations:
    """Images come from listed registries.
    Why: An image from an unknown registry is unreviewed code that runs with access to keys and weights.
    Remedy: mirror the image to a listed registry, or add its registry under parameters.image-restrict-registries.registries.
    """
    name = image_of(image_field).name
    if not any(name == allowed or name.startswith(f"{allowed.rstrip('/')}/") for allowed in parameters["registries"]):
        yield violation(image_field, "comes from a registry that is not listed")


@parameter("release", "26.06", "Oldest release of Triton's container that is allowed")
@resource_rule(IMAGES, Severity.CRITICAL, "inference; CVE-2026-24207")
def model_require_triton_floor(image_field: Field, parameters: Parameters) -> Violations:
    """Triton is recent enough.
    Why: Older servers let requests bypass authentication (CVE-2026-24207, May 2026) or run a client's code (CVE-2025-23319).
    Remedy: use nvcr.io/nvidia/tritonserver release 26.06 or newer.
    """
    image = image_of(image_field)
    if "tritonserver" in image.name:
        match = TRITON_RELEASE.match(image.tag)
        if match is None or not at_least(match.group(1), parameters["release"]):
            yield violation(image_field, f"is not release {parameters['release']} or newer")


@parameter("version", "0.22", "Oldest version of vLLM that is allowed")
@resource_rule(CONTAINERS, Severity.HIGH, "inference; CVE-2026-47155")
def model_require_vllm_floor(container: Container, parameters: Parameters) -> Violations:
    """vLLM is recent enough.
    Why: Before 0.22, a pinned revision did not apply to every file of the model.
    Remedy: use an image of vLLM 0.22 or newer, with the version in its tag.
    """
    image = image_of(container.at("image"))
    if container.at("image").absent or not (VLLM_IMAGE.fullmatch(image.base) or is_vllm(container)):
        return
    match = VLLM_VERSION.search(image.base) or VLLM_VERSION.search(f":{image.tag}") or VERSION_TAG.match(image.tag)
    if match is None:
        # A digest without a tag pins one build; the plan does not contain its version.
        if image.tag or not image.digest:
            yield violation(container.at("image"), "does not state the version of vLLM")
    elif not at_least(match.group(1), parameters["version"]):
        yield violation(container.at("image"), f"is older than vLLM {parameters['version']}")
