"""The PodMonitors of a stack: one per engine, port and path, and one each for the gateway, the
preheats and every exporter.

Pods, not Services: no Service has the gateway's status port, and Prometheus needs every replica.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from inferplan.components.handles import Endpoint
from inferplan.components.metrics_ports import METRICS_PATH, METRICS_PORT, STATUS_PORT
from inferplan.components.monitoring.spec import MonitoringSpec
from inferplan.components.monitoring.vocabulary import kept_metrics
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from inferplan.tables import table

MODEL_LABEL, ENGINE_LABEL = "model", "engine"
"""The labels that every series of a model's pods gets. A label of that name that the engine sets
becomes `exported_model`.
"""
_INSTANCE = f"__meta_kubernetes_pod_label_{INSTANCE_LABEL.replace('.', '_').replace('/', '_')}"


def pod_monitors(
    spec: MonitoringSpec, endpoints: Sequence[Endpoint], *, preheats: bool
) -> Mapping[str, dict[str, Any]]:
    """Return the specs of the PodMonitors by name; none unless the stack scrapes by them."""
    if spec.scrape is None or spec.scrape.by != "podMonitors":
        return {}
    scrape = spec.scrape
    groups: dict[tuple[str, int, str], list[str]] = defaultdict(list)
    for each in endpoints:
        groups[each.engine, each.metrics_port, each.metrics_path].append(each.model)
    monitors: dict[str, dict[str, Any]] = {}
    for (engine, port, path), models in sorted(groups.items()):
        name = (
            f"models-{engine}" if f"models-{engine}" not in monitors else f"models-{engine}-{port}"
        )
        labels = [
            {"sourceLabels": [_INSTANCE], "targetLabel": MODEL_LABEL},
            {"targetLabel": ENGINE_LABEL, "replacement": engine},
        ]
        monitors[name] = _monitor(
            _among("model", **{INSTANCE_LABEL: sorted(models)}),
            port,
            path,
            scrape.interval_seconds,
            labels,
            kept_metrics(engine),
        )
    if any(each.counted for each in endpoints):
        monitors["gateway"] = _monitor(
            _among("gateway"), STATUS_PORT, "/metrics", scrape.interval_seconds
        )
    if preheats:
        monitors["preheats"] = _monitor(
            _among("preheat"), METRICS_PORT, METRICS_PATH, scrape.interval_seconds
        )
    for exporter, namespace in sorted(scrape.exporters.items()):
        row = table("components/monitoring/exporters.toml")[exporter]
        names = table("components/monitoring/vocabulary.toml")["metrics"]
        kept = "|".join(sorted(each for each in names if each.startswith(row["prefix"])))
        content = _monitor(
            {"matchLabels": row["labels"]},
            row["port"],
            row["path"],
            scrape.interval_seconds,
            kept=kept,
        )
        monitors[f"exporter-{exporter}"] = {
            **content,
            "namespaceSelector": {"matchNames": [namespace]},
        }
    return monitors


def _among(component: str, **values: Sequence[str]) -> dict[str, Any]:
    chosen = {COMPONENT_LABEL: [component], **values}
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": each} for key, each in chosen.items()
        ]
    }


def _monitor(
    selector: Mapping[str, Any],
    port: int,
    path: str,
    interval_seconds: int,
    relabelings: Sequence[Mapping[str, Any]] = (),
    kept: str = "",
) -> dict[str, Any]:
    keep = {"sourceLabels": ["__name__"], "regex": kept, "action": "keep"}
    endpoint = {
        "portNumber": port,
        "path": path,
        "interval": f"{interval_seconds}s",
        **({"relabelings": relabelings} if relabelings else {}),
        **({"metricRelabelings": [keep]} if kept else {}),
    }
    return {"selector": selector, "podMetricsEndpoints": [endpoint]}
