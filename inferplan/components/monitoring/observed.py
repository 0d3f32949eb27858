"""The annotations by which Prometheus finds pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from inferplan.components.handles import Endpoint
    from inferplan.components.monitoring.spec import MonitoringSpec
    from inferplan.components.serving.served_model import ServedModel

    AnyModel = TypeVar("AnyModel", bound=ServedModel)


def scrape_annotations(
    monitoring: MonitoringSpec | None, port: int, path: str
) -> Mapping[str, str]:
    """Return the annotations of pods with metrics at `port` and `path`; none unless `monitoring`
    scrapes by annotations.
    """
    if monitoring is None or monitoring.scrape is None or monitoring.scrape.by != "annotations":
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port),
        "prometheus.io/path": path,
    }


def observed(model: AnyModel, endpoint: Endpoint, monitoring: MonitoringSpec | None) -> AnyModel:
    """Return `model` with the annotations that `monitoring` adds; those that the user wrote win."""
    annotations = scrape_annotations(monitoring, endpoint.metrics_port, endpoint.metrics_path)
    return (
        model.model_copy(update={"annotations": {**annotations, **model.annotations}})
        if annotations
        else model
    )
