"""The builds of NVIDIA's Triton image: the backends of each, and the versions of vLLM and TensorRT-LLM of each release.

No build has both. Nothing is known about images of other names.
"""

from __future__ import annotations

import re
from typing import Literal

from inferplan.images.catalogue import default_image, family_of

REPOSITORY = "nvcr.io/nvidia/tritonserver"
Build = Literal["plain", "vllm", "tensorrt-llm"]
_SUFFIXES: dict[Build, str] = {"plain": "-py3", "vllm": "-vllm-python-py3", "tensorrt-llm": "-trtllm-python-py3"}
_TAG = re.compile(rf"^{re.escape(REPOSITORY)}:(?P<release>[0-9][0-9]\.[0-9][0-9])(?P<suffix>-[a-z0-9-]+)")
# Release to (vLLM, TensorRT-LLM): docs/introduction/compatibility.md of triton-inference-server/server, read 2026-11.
_CARRIES: dict[str, tuple[str, str]] = {
    "25.01": ("0.6.3", "0.17.0"),
    "25.02": ("0.7.0", "0.17.0"),
    "25.03": ("0.7.3", "0.18.0"),
    "25.04": ("0.8.1", "0.18.2"),
    "25.05": ("0.8.4", "0.19.0"),
    "25.06": ("0.9.0", "0.20.0"),
    "25.07": ("0.9.0", "0.20.0"),
    "25.08": ("0.9.2", "0.21.0"),
    "25.09": ("0.10.1", "1.0.0"),
    "25.10": ("0.10.2", "1.0.0"),
    "25.11": ("0.11.0", "1.0.3"),
    "25.12": ("0.11.1", "1.1.0"),
    "26.01": ("0.13.0", "1.1.0"),
    "26.02": ("0.15.1", "1.1.0"),
    "26.03": ("0.17.1", "1.2.0"),
    "26.04": ("0.19.0", "1.2.1"),
    "26.05": ("0.19.0", "1.2.1"),
    "26.06": ("0.22.1", "1.2.1"),
    "26.07": ("0.24.0", "1.2.1"),
}
# The first release of TensorRT-LLM without engines.
_NO_ENGINES = (1, 3, 0)


def in_build(image: str, build: Build) -> str:
    """Return NVIDIA's image of the same release in the build `build`; any other image as it is."""
    match = _TAG.match(image)
    return image if match is None else f"{REPOSITORY}:{match['release']}{_SUFFIXES[build]}"


def fault_of(image: str, build: Build, *, since: str | None = None) -> str | None:
    """Return why `image` cannot serve models that need `build` of release `since` or newer; None if no reason is known."""
    match = _TAG.match(image)
    if match is None or build == "plain":
        return None
    release = match["release"]
    if match["suffix"] != _SUFFIXES[build]:
        return f"{image!r} holds no {build} backend. Name {in_build(image, build)}, or leave image out."
    if since is not None and release < since:
        versions = _CARRIES.get(release)
        holds = "" if versions is None else f", which holds {build} {versions[build == 'tensorrt-llm']},"
        return f"{image!r}{holds} is older than these models need. Name release {since} or newer, or leave image out."
    return None


def lacks_engines(image: str) -> str | None:
    """Return why `image` cannot build or serve engines of TensorRT-LLM; None if no reason is known.

    TensorRT-LLM removed its converters, trtllm-build and the C++ backend of Triton after 1.2 (NVIDIA/TensorRT-LLM pull requests 15763,
    15907 and 15918, June and July 2026).
    """
    family, match = family_of(image), _TAG.match(image)
    pinned = default_image("triton-tensorrt-llm")
    if family is not None and family.name == "tensorrt-llm":
        return f"{image!r} holds no Triton, which serves engines. Name {pinned}, or remove build to use trtllm-serve."
    versions = None if match is None else _CARRIES.get(match["release"])
    if match is not None and (versions is None or tuple(map(int, versions[1].split("."))) >= _NO_ENGINES):
        return (
            f"{image!r} is newer than the last release known to build engines: TensorRT-LLM removed that after 1.2. "
            f"Name {pinned}, or remove build to use trtllm-serve."
        )
    return None


def lacks_torch(image: str) -> str | None:
    """Return why `image` cannot run a shipped generator; None if no reason is known. All builds except the plain one have torch."""
    match = _TAG.match(image)
    if match is None or match["suffix"] != _SUFFIXES["plain"]:
        return None
    return f"{image!r} holds no torch, which loads the weights of kind: textGeneration. Name {in_build(image, 'vllm')}, or leave image out."
