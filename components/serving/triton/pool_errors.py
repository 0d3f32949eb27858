"""Checks of a Triton service against its pool: backends that the image and the accelerators have, and instances that fit them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from components.serving.hardware import on_gaudi
from components.serving.triton import builds
from components.serving.triton.models import ExecutedModel, FileModel
from components.spec import SpecError
from images.catalogue import backends_of

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.serving.triton.spec import TritonSpec


def pool_errors(spec: TritonSpec, target: NodeTarget) -> Iterator[SpecError]:
    """Check the models of `spec` against the accelerators and the image of the pool behind `target`."""
    if target.accelerator is None:
        return
    gaudi = on_gaudi(target)
    for name in spec.vllm_models if gaudi else ():
        yield SpecError(
            ("repository", name, "kind"),
            f"Triton's vllm backend has no build for {target.accelerator.name}: its last one was made of a fork of vLLM that ended in 2025-10; "
            "use engine: vllm, or kind: textGeneration",
        )
    image = spec.image or builds.in_build(target.accelerator.engine("triton").image or "", spec.build)
    yield from _backend_errors(spec.executed, image, gaudi=gaudi)
    if spec.image is not None and (problem := _problem_of_image(spec.image, spec)) is not None:
        yield SpecError(("image",), problem)
    instances = {name: model.instances or spec.accelerators_per_pod for name, model in spec.on_accelerators.items()}
    yield from _instance_errors(instances, spec.accelerators_per_pod, target, gaudi=gaudi)


def _problem_of_image(image: str, spec: TritonSpec) -> str | None:
    if spec.vllm_models or "vllm" in spec.libraries:
        return builds.fault_of(image, "vllm")
    return builds.lacks_torch(image) if spec.libraries else None


def _instance_errors(instances: Mapping[str, int], accelerators: int, target: NodeTarget, *, gaudi: bool) -> Iterator[SpecError]:
    for name, count in instances.items():
        if not gaudi and count % accelerators:
            yield SpecError(
                ("repository", name, "instances"),
                f"{count} instances cannot be spread over {accelerators} accelerators evenly. "
                f"Write a multiple of {accelerators}, or set accelerators",
            )
    needed = sum(instances.values())
    if gaudi and needed > accelerators:
        remedy = f"Set accelerators: {needed}, or fewer instances" if needed <= target.capacity.accelerators else "Set fewer instances"
        yield SpecError(
            ("repository",),
            f"on {target.accelerator and target.accelerator.name} each instance holds one accelerator, and {', '.join(instances)} have "
            f"{needed} instances for {accelerators} accelerators. {remedy}",
        )


def _backend_errors(models: Mapping[str, ExecutedModel], image: str, *, gaudi: bool) -> Iterator[SpecError]:
    """Check that the accelerators and `image` have the backends of `models`."""
    backends = backends_of(image)
    for name, model in models.items():
        if gaudi and model.on_accelerators and model.backend != "python":
            yield SpecError(
                ("repository", name, "device"),
                f"The {model.backend} backend has no build for Gaudi. Use device: cpu, or a pool of NVIDIA accelerators",
            )
        elif isinstance(model, FileModel) and backends and model.backend not in backends:
            yield SpecError(
                ("repository", name, "kind"),
                f"{image!r} does not have the {model.backend} backend. It has {', '.join(backends)}. "
                "Set image to one that has it, or serve the model in a service of its own",
            )
