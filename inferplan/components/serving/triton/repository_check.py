"""Checks of an existing model repository in a readable directory, for errors that keep Triton from
loading a model.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from inferplan.components.serving.triton.messages import config_of

_CONFIG = "config.pbtxt"
# Triton derives a backend from the old names of platforms (core src/constants.h), and these stand
# for no backend of the image.
_PLATFORMS = {
    "tensorrt_plan": "tensorrt",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "ensemble": "",
}


def repository_problems(
    directory: Path, names: Sequence[str], backends: Collection[str]
) -> Iterator[str]:
    """Yield the problems of the models in `directory`; `names` must be among them, and `backends`
    are those of the image (empty: unknown).
    """
    models = {
        path.name for path in directory.iterdir() if path.is_dir() and not path.name.startswith(".")
    }
    for name in names:
        if name not in models:
            yield (
                f"{name}: there is no such directory. The repository has"
                f" {', '.join(sorted(models)) or 'no directory'}. Correct models"
            )
    for name in sorted(models):
        yield from (
            f"{name}: {problem}"
            for problem in _problems_of_model(directory / name, models, backends)
        )


def _problems_of_model(
    directory: Path, models: Collection[str], backends: Collection[str]
) -> Iterator[str]:
    versions = [
        path
        for path in directory.iterdir()
        if path.is_dir() and path.name.isdigit() and int(path.name) > 0
    ]
    if not versions:
        yield "it has no version. Expected a directory with a number as its name, for example 1"
    file = directory / _CONFIG
    if not file.is_file():
        return
    from google.protobuf.text_format import ParseError

    try:
        config = config_of(file.read_text(encoding="utf-8"))
    except (ParseError, UnicodeDecodeError) as error:
        yield f"{_CONFIG} cannot be read: {error}. Correct it"
        return
    if config.name and config.name != directory.name:
        yield (
            f"{_CONFIG} has the name {config.name!r}. Expected {directory.name!r}, the name of the"
            " directory, or no name"
        )
    yield from _problems_of_config(config, models, backends)
    if config.backend == "python":
        source = config.default_model_filename or "model.py"
        yield from (
            f"{version.name}/{source} is missing. Add the source of the model"
            for version in versions
            if not (version / source).is_file()
        )


def _problems_of_config(
    config: Any, models: Collection[str], backends: Collection[str]
) -> Iterator[str]:
    backend = config.backend or _PLATFORMS.get(config.platform, "")
    if backend and backends and backend not in backends:
        yield (
            f"the image does not have the {backend} backend. It has {', '.join(sorted(backends))}."
            " Set image to one that has it"
        )
    for step in config.ensemble_scheduling.step:
        if step.model_name not in models:
            yield (
                f"a step of the ensemble is {step.model_name!r}, which the repository does not"
                " have. Add it, or correct the step"
            )
    if config.HasField("dynamic_batching"):
        large = [
            size
            for size in config.dynamic_batching.preferred_batch_size
            if size > config.max_batch_size
        ]
        if large:
            yield (
                f"preferred_batch_size {large} is above max_batch_size {config.max_batch_size}."
                " Lower it, or raise max_batch_size"
            )
