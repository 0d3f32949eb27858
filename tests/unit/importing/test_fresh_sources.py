"""Files in the style of public repositories: the stack has the source's replicas, accelerators and
revision, or the import says that it would be smaller.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lanes import in_full

SOURCES = {
    name: case
    for file in ("fresh", "arguments")
    for name, case in yaml.safe_load(Path(__file__).with_name(f"{file}.yaml").read_text()).items()
}
SAMPLE = (
    "kserve-scale-to-zero",
    "llmd-prefill-and-decode",
    "stack-two-models-one-off",
    "adapters-at-run-time",
)
NO_COMMIT = "0" * 40


def accelerators_of(model: Any) -> int:
    sizes = getattr(model, "tensor_parallel_size", 1), getattr(model, "pipeline_parallel_size", 1)
    return max(sizes[0] * sizes[1], model.accelerators or 1)


def replicas_of(model: Any) -> Any:
    scaling = model.scaling
    return {"min": scaling.min, "max": scaling.max} if scaling else model.replicas


def path_of(model: Any) -> str:
    store = model.weights if getattr(model, "weights", None) else model.repository
    return store.path


def has_argument(model: Any, argument: str) -> bool:
    """True if a field of `model` has the value, or its extra arguments have the words."""
    name, _, value = argument.partition("=")
    field = name.removeprefix("--").replace("-", "_")
    extra = " ".join(model.extra_args).replace("=", " ")
    return f"{name} {value}".strip() in extra or str(getattr(model, field, "")) == (value or "True")


@pytest.mark.parametrize(
    "name", [*SAMPLE, *in_full(*(each for each in SOURCES if each not in SAMPLE))]
)
def test_a_stack_is_as_large_as_its_source_or_says_that_it_is_not(name, imported):
    case = SOURCES[name]
    result, settings = imported(case["source"])
    assert bool(result.shrinks) == case.get("partial", False), result.shrinks
    for path, (replicas, accelerators, revision) in case.get("models", {}).items():
        model = next(each for each in settings.models.values() if path_of(each) == path)
        assert replicas_of(model) == replicas
        assert accelerators_of(model) == accelerators or case.get("partial")
        if hasattr(model, "weights") and model.weights:
            assert (getattr(model.weights, "revision", NO_COMMIT) or NO_COMMIT) == (
                revision or NO_COMMIT
            )
    for path, arguments in case.get("arguments", {}).items():
        model = next(each for each in settings.models.values() if path_of(each) == path)
        assert [each for each in arguments if not has_argument(model, each)] == []
    losses = "\n".join(result.shrinks)
    assert [each for each in case.get("lost", ()) if each not in losses] == []
    assert [each for each in case.get("kept", ()) if each in losses] == []
    assert not [each for each in case.get("gone", ()) if each in result.text]
    assert all(line.count(": ") >= 1 for line in result.left)
