"""Ensembles: graphs of a repository's models that are called as one, checked as Triton checks them
when it loads.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from inferplan.components.serving.triton.models import (
    DeclaredTensors,
    Inputs,
    Outputs,
    RepositoryModel,
)
from inferplan.components.serving.triton.tensors import (
    STREAM,
    ModelName,
    OutputTensor,
    TensorName,
    can_request_streaming,
)
from inferplan.components.spec import Spec

TensorMap = Annotated[dict[TensorName, TensorName], Field(min_length=1)]


class EnsembleStep(Spec):
    """One step of an ensemble: a model, and the ensemble's tensors that its own tensors are mapped
    to.
    """

    model_name: ModelName
    input_map: TensorMap
    """The model's inputs, and the ensemble's tensors that they read."""
    output_map: TensorMap
    """The model's outputs, and the ensemble's tensors that they write."""
    model_version: NonNegativeInt | None = None
    """Default: the newest version that is served."""


class EnsembleModel(DeclaredTensors, RepositoryModel):
    """A graph of models that is called as one."""

    kind: Literal["ensemble"]
    input: Inputs
    output: Outputs
    steps: Annotated[list[EnsembleStep], Field(min_length=1, max_length=64)]


def faults(repository: Mapping[str, RepositoryModel]) -> Iterator[str]:
    """Yield the faults of all ensembles, each as one sentence that starts with the name of the
    ensemble.
    """
    for name, model in repository.items():
        if isinstance(model, EnsembleModel):
            yield from _ensemble(name, model, repository)
    yield from _cycles(
        {name: model for name, model in repository.items() if isinstance(model, EnsembleModel)}
    )


def streaming(name: str, repository: Mapping[str, RepositoryModel]) -> bool:
    """Return True if a request to model `name` may have more than one response, from itself or from
    a step.
    """
    model = repository.get(name)
    if isinstance(model, EnsembleModel):
        return any(
            step.model_name != name and streaming(step.model_name, repository)
            for step in model.steps
        )
    return model is not None and model.streams


def _ensemble(
    name: str, ensemble: EnsembleModel, repository: Mapping[str, RepositoryModel]
) -> Iterator[str]:
    wrong = [
        f"{name}.steps[{index}]: {fault}"
        for index, step in enumerate(ensemble.steps)
        for fault in _step(name, ensemble, step, repository)
    ]
    yield from wrong
    if not wrong:
        yield from (f"{name}: {fault}" for fault in _tensors(ensemble, repository))
        if can_request_streaming(ensemble.inputs) and not streaming(name, repository):
            yield (
                f"{name}: the input {STREAM} requests streaming, and no step streams; let one"
                " stream, or rename the input"
            )


def _hint(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}" if near else ""


def _step(
    name: str,
    ensemble: EnsembleModel,
    step: EnsembleStep,
    repository: Mapping[str, RepositoryModel],
) -> Iterator[str]:
    model = repository.get(step.model_name)
    if model is None:
        hint = _hint(step.model_name, repository)
        yield (
            f"modelName {step.model_name!r} is not a model of this repository{hint}; it has"
            f" {', '.join(sorted(repository))}"
        )
        return
    if step.model_name == name:
        yield "an ensemble cannot be a step of itself. Name another model."
        return
    if step.model_version is not None and step.model_version != model.version:
        yield (
            f"modelVersion {step.model_version} of {step.model_name!r} does not exist. Leave it"
            f" out, or write {model.version}."
        )
    if ensemble.max_batch_size > model.max_batch_size > 0:
        yield (
            f"maxBatchSize {ensemble.max_batch_size} of the ensemble is above"
            f" {model.max_batch_size} of {step.model_name!r}; lower it to {model.max_batch_size},"
            f" or raise that of {step.model_name!r}"
        )
    for field, mapped, tensors in (
        ("inputMap", step.input_map, model.inputs),
        ("outputMap", step.output_map, model.outputs),
    ):
        for tensor in sorted(set(mapped) - set(tensors)):
            yield (
                f"{field} names {tensor!r}, which {step.model_name!r} does not have; it has"
                f" {', '.join(sorted(tensors))}"
            )
    missing = sorted(
        tensor
        for tensor, each in model.inputs.items()
        if not each.optional and tensor not in step.input_map
    )
    if missing:
        yield (
            f"inputMap leaves out {', '.join(missing)}, which {step.model_name!r} needs; map it to"
            " a tensor of the ensemble"
        )


def _tensors(ensemble: EnsembleModel, repository: Mapping[str, RepositoryModel]) -> Iterator[str]:
    written: dict[str, tuple[str, OutputTensor, int]] = {
        tensor: ("the ensemble's input", each, ensemble.max_batch_size)
        for tensor, each in ensemble.inputs.items()
    }
    for step in ensemble.steps:
        model = repository[step.model_name]
        for own, tensor in step.output_map.items():
            if tensor in written:
                yield (
                    f"tensor {tensor!r} is written by {written[tensor][0]} and by"
                    f" {step.model_name!r}; each tensor has one writer"
                )
            else:
                written[tensor] = (
                    f"output {own!r} of {step.model_name!r}",
                    model.outputs[own],
                    model.max_batch_size,
                )
    read: set[str] = set()
    for step in ensemble.steps:
        model = repository[step.model_name]
        for own, tensor in step.input_map.items():
            read.add(tensor)
            reader = f"input {own!r} of {step.model_name!r}"
            yield from _link(tensor, reader, model.inputs[own], model.max_batch_size, written)
    for tensor, each in ensemble.outputs.items():
        yield from _link(tensor, "the ensemble's output", each, ensemble.max_batch_size, written)
    for tensor in sorted(set(written) - read - set(ensemble.outputs)):
        yield (
            f"tensor {tensor!r}, {written[tensor][0]}, is read by nothing; map it as an input or an"
            " output, or remove it"
        )


def _link(
    tensor: str,
    reader: str,
    wanted: OutputTensor,
    batch: int,
    written: Mapping[str, tuple[str, OutputTensor, int]],
) -> Iterator[str]:
    if tensor not in written:
        yield (
            f"tensor {tensor!r}, read as {reader}, is written by nothing{_hint(tensor, written)};"
            f" the ensemble has {', '.join(sorted(written))}"
        )
        return
    writer, output, output_batch = written[tensor]
    if output.data_type != wanted.data_type:
        yield (
            f"tensor {tensor!r} is {output.data_type} as {writer} and {wanted.data_type} as"
            f" {reader}. Make them equal."
        )
    elif not _fit(_whole(output, output_batch), _whole(wanted, batch)):
        shapes = (
            f"{_whole(output, output_batch)} as {writer} and {_whole(wanted, batch)} as {reader}"
        )
        yield (
            f"tensor {tensor!r} has the shape {shapes}, batch axis included. Make dims or"
            " maxBatchSize equal."
        )


def _whole(tensor: OutputTensor, batch: int) -> list[int]:
    return [-1, *tensor.dims] if batch else tensor.dims


def _fit(one: list[int], other: list[int]) -> bool:
    """Return True if two shapes may be of one tensor; -1 fits any size, and is checked when a
    request comes.
    """
    return len(one) == len(other) and all(
        -1 in (a, b) or a == b for a, b in zip(one, other, strict=True)
    )


def _cycles(ensembles: Mapping[str, EnsembleModel]) -> Iterator[str]:
    """Yield ensembles that contain themselves through others, and steps that wait for each other's
    tensors.
    """
    for name, ensemble in ensembles.items():
        ready = set(ensemble.inputs)
        waiting = list(ensemble.steps)
        while runnable := [step for step in waiting if ready.issuperset(step.input_map.values())]:
            ready |= {tensor for step in runnable for tensor in step.output_map.values()}
            waiting = [step for step in waiting if step not in runnable]
        every = set(ensemble.inputs) | {
            tensor for step in ensemble.steps for tensor in step.output_map.values()
        }
        if waiting and all(every.issuperset(step.input_map.values()) for step in waiting):
            models = ", ".join(step.model_name for step in waiting)
            yield f"{name}: steps {models} wait for each other's tensors; break the cycle"
        seen: set[str] = set()
        inside = [step.model_name for step in ensemble.steps]
        while inside:
            each = inside.pop()
            if each == name and each not in [step.model_name for step in ensemble.steps]:
                yield f"{name}: it contains itself through other ensembles; break the cycle"
                break
            if each not in seen and each in ensembles:
                seen.add(each)
                inside += [step.model_name for step in ensembles[each].steps]
