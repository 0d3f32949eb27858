"""Engines as their command lines tell them. It knows vLLM's and Triton's words, and no class of ours."""

from __future__ import annotations

from policies.subjects.images import image_of
from policies.subjects.pods import Container, PodTemplate

_LAUNCHERS = frozenset(["vllm", "serve", "python3", "python", "-m", "vllm.entrypoints.openai.api_server"])


def is_vllm(container: Container) -> bool:
    """Whether a container runs vLLM: by its command, or by its image unless it only takes that image to the node."""
    words = container.words
    if "vllm" in words or any(word.startswith("vllm.") for word in words):
        return True
    return "vllm" in image_of(container.at("image")).name and not _only_pulls(container)


def _only_pulls(container: Container) -> bool:
    """Whether a container has a command of its own that names no vLLM, and no accelerator to run one on."""
    command = [each.text() for each in container.at("command").each()]
    return bool(command) and not any("vllm" in word for word in container.words) and not any(True for _ in container.accelerators())


def engine_containers(pod: PodTemplate) -> tuple[Container, ...]:
    """The containers that serve models: those with accelerators, and those that run vLLM."""
    return tuple(each for each in pod.containers if not each.init and (is_vllm(each) or any(True for _ in each.accelerators())))


def model_of(container: Container) -> str:
    """The model that vLLM is told to serve, "" where the command line does not say."""
    if not is_vllm(container):
        return ""
    named = container.option("--model")
    if named is not None:
        return named
    # vLLM takes the model as its first word that is neither an option nor the way it is launched.
    rest = [word for word in container.words if word.rpartition("/")[2] not in _LAUNCHERS]
    return rest[0] if rest and not rest[0].startswith("-") else ""
