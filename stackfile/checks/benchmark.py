"""Checks the benchmark: services that exist and take prompts, a consumer that may call them, a tokenizer on a volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.spec import KeyPath, SpecError
from stackfile.checks import unknown

if TYPE_CHECKING:
    from components.benchmark.spec import BenchmarkSpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check `benchmark`."""
    spec = settings.benchmark
    if spec is None:
        return
    if settings.gateway is None:
        yield SpecError(("benchmark",), "benchmark requires gateway, which it calls. Add gateway, or remove benchmark.")
    elif not settings.gateway.runs_in_namespace:
        implementation = settings.gateway.implementation
        yield SpecError(
            ("benchmark",), f"benchmark requires a gateway in its namespace; {implementation} runs in its own. Use implementation nginx."
        )
    if spec.consumer not in settings.consumers:
        yield unknown(("benchmark", "consumer"), spec.consumer, "consumer", settings.consumers, "consumers")
    for index, name in enumerate(spec.models):
        yield from _service(settings, spec, ("benchmark", "models", index), name)
    yield from _tokenizer(settings, spec)


def _service(settings: StackSettings, spec: BenchmarkSpec, path: KeyPath, name: str) -> Iterator[SpecError]:
    name, _, served = name.partition("/")
    model = settings.models.get(name)
    if model is None:
        yield unknown(path, name, "model", settings.models, "models")
    elif not model.takes_prompts or (served and served not in [text.model for text in model.texts]):
        name = f"{name}/{served}" if served else name
        reason = f": {model.why_no_prompts}" if model.why_no_prompts else ""
        allowed = "A benchmark calls OpenAI APIs, and Triton models that require one TYPE_STRING input and at most max_tokens besides it"
        yield SpecError(path, f"{name} does not take prompts{reason}. {allowed}. Make other inputs optional, or use another model.")
    elif spec.consumer in settings.consumers and spec.consumer not in model.consumers:
        yield SpecError(path, f"Consumer {spec.consumer} may not call {name}. Add {spec.consumer} to models.{name}.consumers.")


def _tokenizer(settings: StackSettings, spec: BenchmarkSpec) -> Iterator[SpecError]:
    model = settings.models.get(spec.tokenizer)
    path = ("benchmark", "tokenizer")
    if model is None:
        yield unknown(path, spec.tokenizer, "model", settings.models, "models")
        return
    if model.weights is None:
        yield SpecError(path, f"{spec.tokenizer} has no weights, and the tokenizer is read from them. Use a model with weights.")
        return
    store = settings.storage.get(model.weights.store)
    if model.preheat is None and store is not None and store.kind == "s3":
        yield SpecError(
            path, f"The files of {spec.tokenizer} are in a bucket, but the tokenizer must be on a volume. Use a model with preheat."
        )
