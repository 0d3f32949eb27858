"""The facts of a model, whichever engine serves it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inferplan.components.handles import Endpoint, NodeTarget
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.storage.fields import Store
from inferplan.components.stores import WeightsSpec
from inferplan.kube.facts import FilesFacts, ModelFacts

# The name of the fact by the path of an engine's setting; "" for a setting that other facts state.
_MEANINGS = {
    "prompt_tokens": re.compile(r"(.+\.)?(max(Model|Seq|Input)Len|maxNumTokens|contextLength)"),
    "parts": re.compile(
        r"lora(Adapters|Artifacts)|scriptFile|generatorFile|(.+\.)?(checkpointPath|baseModel|adapter|file)"
    ),
    "code": re.compile(r"trustRemoteCode"),
    "": re.compile(
        r"loraConsumers\..+|servedModelName|modelName|workerAutoscaling\.maxReplicas|router\.(policy|replicas)|applications\.[^.]+\.(env|routePrefix|modelId)"
        r"|repository\.(store|path|revision|files|size|models)"
    ),
}


def model_facts(
    endpoint: Endpoint,
    spec: ServedModel,
    stores: Mapping[str, Store],
    target: NodeTarget | None = None,
) -> ModelFacts:
    weights = spec.stored_files
    facts = spec.facts_as(
        ModelFacts,
        consumers=sorted(spec.consumers),
        names=endpoint.served_names,
        routes=[route.prefix for route in endpoint.routes],
        protocols=[protocol.kind for protocol in endpoint.protocols],
        weights=None if weights is None else _files(weights, stores),
        artifacts={name: _files(each, stores) for name, each in spec.artifacts.items()},
        preheat=(
            {}
            if spec.preheat is None
            else spec.preheat.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        ),
        accelerators=spec.accelerators_per_pod * spec.pods,
        replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        signals=spec.scaling_signals,
        traffic=(
            {}
            if spec.traffic is None
            else spec.traffic.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        ),
        slo={} if spec.slo is None else spec.slo.model_dump(mode="json", by_alias=True),
        batching=_batching(spec, target),
        router=(
            {}
            if spec.routed_by is None
            else {"policy": spec.routed_by.policy, "replicas": spec.routed_by.replicas}
        ),
    )
    by_fact: dict[str, Any] = {name: {} for name in _MEANINGS}
    settings = _without_meaning(facts.settings, "", by_fact)
    del by_fact[""]
    return replace(facts, settings=settings, **by_fact)


def _batching(spec: ServedModel, target: NodeTarget | None) -> Mapping[str, Any]:
    """Return the facts of the engine that predictions read; empty without traffic, so that no other
    report depends on it.
    """
    if spec.traffic is None or target is None or target.accelerator is None:
        return {}
    from inferplan.components.serving.scaling import cooldown_seconds
    from inferplan.components.serving.workload import budget

    times = budget(spec, target)
    seconds = {"startSeconds": times.loading}
    if spec.scaling is not None:
        seconds["stabilizationSeconds"] = cooldown_seconds(spec.scaling, times)
    image = spec.image or target.accelerator.engine(spec.engine).image
    batching = spec.batching(target.accelerator)
    return {**seconds, **({"image": image} if batching is None else batching.document(image))}


def _without_meaning(
    settings: Mapping[str, Any], path: str, by_fact: dict[str, Any]
) -> dict[str, Any]:
    """Return `settings` without those that are facts of their own, which are moved to `by_fact`, by
    fact and path.
    """
    remaining = {}
    for key, value in settings.items():
        fact = next(
            (name for name, pattern in _MEANINGS.items() if pattern.fullmatch(f"{path}{key}")), None
        )
        if fact is not None:
            parts = (
                {f".{part}": each for part, each in value.items()}
                if isinstance(value, dict)
                else {"": value}
            )
            by_fact[fact] |= {f"{path}{key}{part}": each for part, each in parts.items()}
        else:
            remaining[key] = (
                _without_meaning(value, f"{path}{key}.", by_fact)
                if isinstance(value, dict)
                else value
            )
    return remaining


def _files(files: WeightsSpec, stores: Mapping[str, Store]) -> FilesFacts:
    names = ("store", "path", "revision", "files", "size")
    return FilesFacts(
        location=stores[files.store].location, **{name: getattr(files, name) for name in names}
    )
