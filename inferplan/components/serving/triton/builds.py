"""The builds of NVIDIA's Triton image: the backends of each, and the versions of vLLM and
TensorRT-LLM of each release.
"""

import re
from typing import Literal

from inferplan.images.catalogue import default_image, family_of
from inferplan.tables import table

REPOSITORY = "nvcr.io/nvidia/tritonserver"
Build = Literal["plain", "vllm", "tensorrt-llm"]
_SUFFIXES: dict[Build, str] = {
    "plain": "-py3",
    "vllm": "-vllm-python-py3",
    "tensorrt-llm": "-trtllm-python-py3",
}
_TAG = re.compile(
    rf"^{re.escape(REPOSITORY)}:(?P<release>[0-9][0-9]\.[0-9][0-9])(?P<suffix>-[a-z0-9-]+)"
)
# The first release of TensorRT-LLM without engines.
_NO_ENGINES = (1, 3, 0)


def in_build(image: str, build: Build) -> str:
    """Return NVIDIA's image of the same release in the build `build`; any other image as it is."""
    match = _TAG.match(image)
    return image if match is None else f"{REPOSITORY}:{match['release']}{_SUFFIXES[build]}"


def fault_of(image: str, build: Build, *, since: str | None = None) -> str | None:
    """Return why `image` cannot serve models that need `build` of release `since` or newer; None if
    no reason is known.
    """
    match = _TAG.match(image)
    if match is None or build == "plain":
        return None
    release = match["release"]
    if match["suffix"] != _SUFFIXES[build]:
        return (
            f"{image!r} holds no {build} backend. Name {in_build(image, build)}, or leave image"
            " out."
        )
    if since is not None and release < since:
        versions = table("components/serving/triton/releases.toml").get(release)
        holds = (
            ""
            if versions is None
            else f", which holds {build} {versions[build == 'tensorrt-llm']},"
        )
        return (
            f"{image!r}{holds} is older than these models need. Name release {since} or newer, or"
            " leave image out."
        )
    return None


def lacks_engines(image: str) -> str | None:
    """Return why `image` cannot build or serve engines of TensorRT-LLM; None if no reason is known.

    TensorRT-LLM removed its converters, trtllm-build and the C++ backend of Triton after 1.2
    (NVIDIA/TensorRT-LLM pull requests 15763, 15907 and 15918, June and July 2026).
    """
    family, match = family_of(image), _TAG.match(image)
    pinned = default_image("triton-tensorrt-llm")
    if family is not None and family.name == "tensorrt-llm":
        return (
            f"{image!r} holds no Triton, which serves engines. Name {pinned}, or remove build to"
            " use trtllm-serve."
        )
    versions = (
        None
        if match is None
        else table("components/serving/triton/releases.toml").get(match["release"])
    )
    if match is not None and (
        versions is None or tuple(map(int, versions[1].split("."))) >= _NO_ENGINES
    ):
        return (
            f"{image!r} is newer than the last release known to build engines: TensorRT-LLM removed"
            f" that after 1.2. Name {pinned}, or remove build to use trtllm-serve."
        )
    return None


def lacks_torch(image: str) -> str | None:
    """Return why `image` cannot run a shipped generator; None if no reason is known. All builds
    except the plain one have torch.
    """
    match = _TAG.match(image)
    if match is None or match["suffix"] != _SUFFIXES["plain"]:
        return None
    return (
        f"{image!r} holds no torch, which loads the weights of kind: textGeneration. Name"
        f" {in_build(image, 'vllm')}, or leave image out."
    )
