"""Checks that every image of the pods on Graviton (arm64) nodes exists for their processors, as far as the image catalogue knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.gateway.spec import NginxGatewaySpec
from components.platforms.aws.pool_spec import EksPool
from components.preheat.spec import DEFAULT_HUB_IMAGE, DEFAULT_IMAGE
from components.spec import KeyPath, SpecError
from images.catalogue import facts_of

if TYPE_CHECKING:
    from components.platforms.platform import Sections


def architecture_errors(name: str, pool: EksPool, sections: Sections) -> Iterator[SpecError]:
    """Check the pods that run on `pool` if its nodes are arm64: its models, and without taints also the gateway and preheats."""
    if pool.architecture != "arm64":
        return
    for key, model in sections.models.items():
        if model.pool == name:
            yield SpecError(
                ("models", key, "pool"),
                f"Pool {name!r} has arm64 processors ({pool.machines[0]}), and no engine image is known to exist for them. "
                "Use a pool with x86_64 instance types, for example m7i.2xlarge.",
            )
    if pool.target(name).taints:
        return
    for path, image in _images(sections):
        facts = facts_of(image)
        if facts is None or "arm64" not in facts.architectures:
            yield SpecError(
                path,
                f"Pods with {image} can run on pool {name!r}, which has arm64 processors ({pool.machines[0]}), and nothing says that the image "
                f"exists for them. Remove this field to use an image that does, add taints to the pool, or use x86_64 instance types.",
            )


def _images(sections: Sections) -> Iterator[tuple[KeyPath, str]]:
    """Yield the images of pods that run on any node without taints, each with the field that names it."""
    if isinstance(sections.gateway, NginxGatewaySpec):
        yield ("gateway", "image"), sections.gateway.image
    for key, model in sections.models.items():
        if model.preheat is not None:
            hub = model.weights is not None and sections.storage[model.weights.store].kind == "huggingface"
            yield ("models", key, "preheat", "image"), model.preheat.image or (DEFAULT_HUB_IMAGE if hub else DEFAULT_IMAGE)
            yield ("models", key, "preheat", "rcloneImage"), model.preheat.rclone_image
    if sections.benchmark is not None:
        yield ("benchmark", "image"), sections.benchmark.image
