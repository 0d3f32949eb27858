"""Engines as their command lines tell them. It knows the words of vLLM, SGLang, TGI and TensorRT-LLM, and no class of ours."""

from __future__ import annotations

import re

from policies.subjects.pods import Container, PodTemplate
from policies.subjects.programs import image_of

_SERVERS = re.compile(r"vllm|sglang|huggingface_?server|text-generation-(inference|launcher)|trtllm-serve")
# Images that start vLLM by themselves; pytriton-vllm and the like start another server, which loads it.
_IMAGE = re.compile(r"(?!.*triton)(.*[-_])?vllm")
# Options of vLLM that take no value, by how they begin: the word behind one may be the model.
_SWITCHES = re.compile(r"--(enable|disable|no|use|skip|return|trust|enforce|calculate|headless|async|language-model-only)(-|$)")


def is_vllm(container: Container) -> bool:
    """True if a container runs vLLM: by its command, or by its image unless it only takes that image to the node."""
    if _names_vllm(container):
        return True
    return bool(_IMAGE.match(image_of(container.at("image")).base)) and not _only_pulls(container)


def starts_vllm(container: Container) -> bool:
    """True if the container's own command line, or its image's, starts the engine: a follower only joins one that another pod starts."""
    return is_vllm(container) and (container.at("command").absent or _names_vllm(container))


def _names_vllm(container: Container) -> bool:
    return any(word.rpartition("/")[2] == "vllm" or word.startswith("vllm.") for word in container.words)


def _only_pulls(container: Container) -> bool:
    """True if a container has a command of its own that names no vLLM, and no accelerator to run one on."""
    command = [each.text() for each in container.at("command").each()]
    return bool(command) and not any("vllm" in word for word in container.words) and not container.accelerated


def engine_containers(pod: PodTemplate) -> tuple[Container, ...]:
    """The containers that serve models: those with accelerators, and those that run vLLM."""
    return tuple(each for each in pod.running if each.accelerated or is_vllm(each))


def model_of(container: Container) -> str:
    """The model that a server serves, "" where the command line does not say."""
    kserve = container.at("modelFormat", "name").text() == "huggingface"
    if not kserve and not any(_SERVERS.search(text) for text in (image_of(container.at("image")).name, *container.words)):
        return ""
    named = container.option("--model", "--model-path", "--model-id")
    if named is not None:
        return named
    tgi = container.environment().get("MODEL_ID")
    if tgi is not None and "text-generation" in image_of(container.at("image")).base:
        return tgi.at("value").text()
    return _positional(container) if is_vllm(container) else ""


def _positional(container: Container) -> str:
    """The first word of `vllm serve` that is neither an option nor an option's value."""
    words = list(container.arguments)
    texts = [each.text.rpartition("/")[2] for each in words]
    if "vllm" in texts:
        words = words[texts.index("vllm") + 1 :]
    elif not container.at("command").absent:
        # Another program starts the server, and knows the model itself.
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
