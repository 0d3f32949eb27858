"""Pods, containers and models in KServe's kinds (API of August 2026), without merging runtimes into
services.
"""

from collections.abc import Iterator
from typing import NamedTuple

from inferplan.policies.engine.fields import Field, MalformedFieldError
from inferplan.policies.engine.resource import Resource

_API = "kubernetes:serving.kserve.io"
INFERENCE_SERVICE = f"{_API}:InferenceService"
LLM_SERVICE = f"{_API}:LLMInferenceService"
SERVICES = (INFERENCE_SERVICE, LLM_SERVICE)
"""The kinds that run pods. They read the other kinds."""
RUNTIMES = (f"{_API}:ServingRuntime", f"{_API}:ClusterServingRuntime")
_LLM_CONFIG = f"{_API}:LLMInferenceServiceConfig"
KINDS = (*SERVICES, *RUNTIMES, _LLM_CONFIG)
_COMPONENTS = ("predictor", "transformer", "explainer")
# The keys of a predictor with a container that completes a runtime: `model`, or a framework in
# older manifests.
_MODELS = (
    "model",
    "sklearn",
    "xgboost",
    "tensorflow",
    "pytorch",
    "triton",
    "onnx",
    "huggingface",
    "pmml",
    "lightgbm",
    "paddle",
)
_LLM_PODS = (("template",), ("worker",), ("prefill", "template"), ("prefill", "worker"))
_LLM_HELPERS = (
    ("router", "scheduler", "template"),
    ("router", "scheduler", "tokenizer", "template"),
)


class Part(NamedTuple):
    """One pod template; `models` are containers outside its list, `stores` the URIs of its weights,
    `partial` if its kind lacks fields.
    """

    metadata: Field
    spec: Field
    models: tuple[Field, ...] = ()
    stores: tuple[Field, ...] = ()
    partial: bool = False


def parts_of(resource: Resource) -> Iterator[Part]:
    spec = resource.at("spec")
    if resource.kind in RUNTIMES:
        yield Part(spec, spec, partial=True)
        yield from _workers(spec)
    elif resource.kind == INFERENCE_SERVICE:
        for component in (spec.at(name) for name in _COMPONENTS):
            if not component.absent:
                models = tuple(each for each in map(component.at, _MODELS) if not each.absent)
                stores = (
                    *(each.at("storageUri") for each in models),
                    *(each.at("uri") for each in component.at("storageUris").each()),
                )
                yield Part(component, component, models, stores)
                yield from _workers(component)
    else:
        yield from _of_llm(resource, spec)


def _workers(spec: Field) -> Iterator[Part]:
    """The worker pods of an engine with several pods."""
    if not spec.at("workerSpec").absent:
        yield Part(spec, spec.at("workerSpec"), partial=True)


def _of_llm(resource: Resource, spec: Field) -> Iterator[Part]:
    stores = (spec.at("model", "uri"),)
    for keys in (*_LLM_PODS, *_LLM_HELPERS):
        # A service without a template gets one in the cluster, so it is checked too.
        if not spec.at(*keys).absent or (keys == ("template",) and resource.kind == LLM_SERVICE):
            yield Part(spec.at(*keys[:-1]), spec.at(*keys), stores=stores)
            stores = ()


def owner_of(pod: Field) -> Field:
    """The map with the number of pods of a template: a component of an InferenceService or a
    workload of an LLMInferenceService.
    """
    return pod.above if pod.keys[-1] in ("workerSpec", "template", "worker") else pod


def copies(pod: Field, *, least: bool) -> float:
    """The number of pods of a template, at most or at the `least`. Raises FieldError."""
    owner = owner_of(pod)
    if pod.keys[1:3] == ("router", "scheduler"):
        return owner.at("replicas").number() or 1
    if owner.keys[-1] in _COMPONENTS:
        low, high = _first(owner.at("minReplicas")), owner.at("maxReplicas").number() or 0
    else:
        low, high = (
            _first(owner.at("scaling", key), owner.at("replicas"))
            for key in ("minReplicas", "maxReplicas")
        )
    groups = low if least else max(low, high)
    return groups * (group_size(pod) - 1) if pod.keys[-1] in ("workerSpec", "worker") else groups


def _first(*fields: Field) -> float:
    """The first number that is set, or 1. Raises FieldError."""
    return next((each.number() or 0 for each in fields if not each.absent), 1)


def group_size(pod: Field) -> float:
    """The number of pods of one engine. Raises FieldError."""
    owner = owner_of(pod)
    if not owner.at("workerSpec").absent:
        return owner.at("workerSpec", "pipelineParallelSize").number() or 2
    if owner.at("worker").absent:
        return 1
    split = owner.at("parallelism")
    if split.at("data").absent and split.at("dataLocal").absent:
        return split.at("pipeline").number() or 1
    local = split.at("dataLocal").number() or 1
    if local < 1:
        raise MalformedFieldError(split.at("dataLocal"), "a number of ranks")
    return max((split.at("data").number() or 1) // local, 1)


def labels_of(pod: Field, resource: Resource) -> dict[str, str]:
    name = resource.at("metadata", "name").text()
    if resource.kind != INFERENCE_SERVICE:
        return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "llminferenceservice"}
    own = {key: each.text() for key, each in resource.at("metadata", "labels").entries()}
    component = str(pod.keys[1])
    return {
        **own,
        "serving.kserve.io/inferenceservice": name,
        "component": component,
        "app": f"isvc.{name}-{component}",
    }
