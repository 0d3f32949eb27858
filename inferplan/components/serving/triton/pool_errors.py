"""Checks of a Triton service against its pool: backends that the image and the accelerators have,
and instances that fit them.
"""

from collections.abc import Collection, Iterator, Mapping

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.triton import builds
from inferplan.components.serving.triton.models import ExecutedModel, FileModel, RepositoryModel
from inferplan.components.serving.triton.text_models import VllmModel
from inferplan.documents.errors import SpecError
from inferplan.images.catalogue import backends_of


def pool_errors(
    models: Mapping[str, RepositoryModel],
    libraries: Collection[str],
    target: NodeTarget,
    *,
    image: str | None,
    build: builds.Build,
    accelerators: int,
) -> Iterator[SpecError]:
    """Check `models` against the pool `target` and the image: the user's `image`, else the table's
    in `build`.
    """
    if target.accelerator is None:
        return
    assigned = target.accelerator.vendor.triton_kind is not None
    vllm = [name for name, model in models.items() if isinstance(model, VllmModel)]
    executed = {name: model for name, model in models.items() if isinstance(model, ExecutedModel)}
    for name in () if assigned else vllm:
        yield SpecError(
            ("repository", name, "kind"),
            f"Triton's vllm backend has no build for {target.accelerator.name}: its last one was"
            " made of a fork of vLLM that ended in 2025-10; use engine: vllm, or kind:"
            " textGeneration",
        )
    yield from _backend_errors(
        executed,
        image or builds.in_build(target.accelerator.engine("triton").image or "", build),
        assigned=assigned,
    )
    if image is not None:
        needs_vllm = bool(vllm) or "vllm" in libraries
        lacks_torch = builds.lacks_torch(image) if libraries else None
        if (problem := builds.fault_of(image, "vllm") if needs_vllm else lacks_torch) is not None:
            yield SpecError(("image",), problem)
    instances = {
        name: model.instances or accelerators
        for name, model in executed.items()
        if model.on_accelerators
    }
    yield from _instance_errors(instances, accelerators, target, assigned=assigned)


def _instance_errors(
    instances: Mapping[str, int], accelerators: int, target: NodeTarget, *, assigned: bool
) -> Iterator[SpecError]:
    for name, count in instances.items():
        if assigned and count % accelerators:
            yield SpecError(
                ("repository", name, "instances"),
                f"{count} instances cannot be spread over {accelerators} accelerators evenly. "
                f"Write a multiple of {accelerators}, or set accelerators",
            )
    needed = sum(instances.values())
    if not assigned and needed > accelerators:
        remedy = (
            f"Set accelerators: {needed}, or fewer instances"
            if needed <= target.capacity.accelerators
            else "Set fewer instances"
        )
        yield SpecError(
            ("repository",),
            f"on {target.accelerator and target.accelerator.name} each instance holds one"
            f" accelerator, and {', '.join(instances)} have {needed} instances for {accelerators}"
            f" accelerators. {remedy}",
        )


def _backend_errors(
    models: Mapping[str, ExecutedModel], image: str, *, assigned: bool
) -> Iterator[SpecError]:
    """Check that the accelerators and `image` have the backends of `models`."""
    backends = backends_of(image)
    for name, model in models.items():
        if not assigned and model.on_accelerators and model.backend != "python":
            yield SpecError(
                ("repository", name, "device"),
                f"The {model.backend} backend has no build for these accelerators. Use device: cpu, or a pool of"
                " NVIDIA accelerators",
            )
        elif isinstance(model, FileModel) and backends and model.backend not in backends:
            yield SpecError(
                ("repository", name, "kind"),
                f"{image!r} does not have the {model.backend} backend. It has"
                f" {', '.join(backends)}. Set image to one that has it, or serve the model in a"
                " service of its own",
            )
