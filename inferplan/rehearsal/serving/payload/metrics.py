"""The metrics page of one replica, with its engine's metric names (metrics.toml in its folder),
and the pods as Prometheus discovers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from inferplan.rehearsal.serving.payload.replicas import BUCKETS, Histogram, Model, Replica
from inferplan.tables import table


def _family(engine: str) -> Mapping[str, Any]:
    """The tables `metrics` and `stub` of `engine`, or of the engine that it extends; without
    metrics.toml both are empty.
    """
    try:
        own = table(f"components/serving/{engine.replace('-', '_')}/metrics.toml")
    except FileNotFoundError:
        return {"metrics": {}, "stub": {"labels": {}, "metrics": []}}
    return own if "stub" in own else _family(own["extends"])


def page(model: Model, replica: Replica) -> str:
    """Metrics in Prometheus's text format."""
    family = _family(model.spec["engine"])
    types, stub = family["metrics"], family["stub"]
    # The servers count a model with adapters or several names under its first name.
    served = next(iter(model.spec["served_names"]), model.spec["name"])
    labels = {
        name: text.format(served=served, pod=replica.name) for name, text in stub["labels"].items()
    }
    lines: list[str] = []
    for metric in stub["metrics"]:
        kind = f"# TYPE {metric['name']} {types[metric['name']]}"
        lines += [kind] if kind not in lines else []
        value = _value(replica, metric["value"])
        lines += _samples(metric, types[metric["name"]], labels | metric.get("labels", {}), value)
    return "\n".join([*lines, ""])


def _value(replica: Replica, name: str) -> float | Histogram:
    if name in replica.times:
        return replica.times[name]
    states = {
        "running": replica.running,
        "waiting": replica.waiting,
        "used_share": replica.running / replica.slots,
    }
    return states.get(name, replica.counts[name])


def _samples(
    metric: Mapping[str, Any], kind: str, labels: Mapping[str, str], value: float | Histogram
) -> Iterator[str]:
    name, factor = metric["name"], float(metric.get("factor", 1))
    written = ",".join(f'{key}="{text}"' for key, text in labels.items())
    if not isinstance(value, Histogram):
        yield f"{name}{{{written}}} {value * factor:g}"
    elif kind == "counter":
        yield f"{name}{{{written}}} {value.sum * factor:.0f}"
    else:
        bounds = [*(f"{bound * factor:g}" for bound in BUCKETS), "+Inf"]
        yield from (
            f'{name}_bucket{{{written},le="{bound}"}} {count}'
            for bound, count in zip(bounds, accumulate(value.counts), strict=True)
        )
        yield f"{name}_sum{{{written}}} {value.sum * factor:g}"
        yield f"{name}_count{{{written}}} {sum(value.counts)}"


def targets(site: Mapping[str, Any], models: Mapping[str, Model]) -> list[dict[str, Any]]:
    """Every Ready pod with its labels, as Prometheus's http_sd_configs reads them."""
    return [
        {
            "targets": [f"127.0.0.1:{site['metrics_port']}"],
            "labels": {
                "__metrics_path__": f"/pods/{replica.name}/metrics",
                "namespace": site["namespace"],
                "pod": replica.name,
                "model": name,
                "engine": model.spec["engine"],
            },
        }
        for name, model in models.items()
        for replica in model.ready()
    ]
