"""Engines and models of containers, from their images and command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inferplan.policies.engine.fields import Field
from inferplan.policies.subjects.pods import Container, PodTemplate
from inferplan.policies.subjects.programs import image_of

_SERVER_KEY = r"(VLLM|TRITON|SGLANG|SERVER|MODEL|ENGINE|TRTLLM|INFERENCE)\w*(API_KEY|_KEY|_TOKEN)"
_SERVERS = re.compile(r"vllm|sglang|huggingface_?server|text-generation-(inference|launcher)|trtllm-serve")
# Images whose entrypoint is vLLM. Others, such as pytriton-vllm, start a server that loads vLLM.
_IMAGE = re.compile(r"(?!.*triton)(.*[-_])?vllm")
# Prefixes of vLLM's options without a value. The word after one can be the model.
_SWITCHES = re.compile(r"--(enable|disable|no|use|skip|return|trust|enforce|calculate|headless|async|language-model-only)(-|$)")


def is_vllm(container: Container) -> bool:
    """True if the command names vLLM, or the image is one of vLLM and the container does not only pull it."""
    if _names_vllm(container) or not _IMAGE.match(image_of(container.at("image")).base):
        return _names_vllm(container)
    # A container without accelerators that runs another command only pulls the image.
    command = [each.text() for each in container.at("command").each()]
    return not command or any("vllm" in word for word in container.words) or container.accelerated


def starts_vllm(container: Container) -> bool:
    """True if the container starts vLLM. A follower only joins an engine that another pod starts."""
    return is_vllm(container) and (container.at("command").absent or _names_vllm(container))


def _names_vllm(container: Container) -> bool:
    return any(word.rpartition("/")[2] == "vllm" or word.startswith("vllm.") for word in container.words)


def engine_containers(pod: PodTemplate) -> tuple[Container, ...]:
    """The containers with accelerators, and those that run vLLM."""
    return tuple(each for each in pod.running if each.accelerated or is_vllm(each))


def model_of(container: Container) -> str:
    """The model on the command line of a server, "" if there is none."""
    kserve = container.at("modelFormat", "name").text() == "huggingface"
    if not kserve and not any(_SERVERS.search(text) for text in (image_of(container.at("image")).name, *container.words)):
        return ""
    model = container.option("--model", "--model-path", "--model-id")
    if model is not None:
        return model
    tgi = container.environment().get("MODEL_ID")
    if tgi is not None and "text-generation" in image_of(container.at("image")).base:
        return tgi.at("value").text()
    return _positional(container) if is_vllm(container) else ""


def _positional(container: Container) -> str:
    """The first argument of `vllm serve` that is not an option or the value of one."""
    words = list(container.arguments)
    texts = [each.text.rpartition("/")[2] for each in words]
    if "vllm" in texts:
        words = words[texts.index("vllm") + 1 :]
    elif not container.at("command").absent:
        # Another program starts the server and chooses the model.
        return ""
    if words and words[0].text == "serve":
        words = words[1:]
    value_follows = False
    for word in words:
        if word.ends_command:
            return ""
        option = word.text.startswith("-")
        if not option and not value_follows:
            return word.text
        value_follows = option and "=" not in word.text and not _SWITCHES.match(word.text.replace("_", "-"))
    return ""


def server_keys(pod: PodTemplate) -> Iterator[Field]:
    """The fields with the names of the Secrets that hold the pod's own key. Raises FieldError."""
    entries = (entry for container in engine_containers(pod) for entry in container.variables(_SERVER_KEY))
    yield from (name for entry in entries if (name := entry.at("valueFrom", "secretKeyRef", "name")).text())
