"""The annotations by which Prometheus finds pods."""

from __future__ import annotations

from collections.abc import Mapping

from inferplan.components.monitoring.spec import MonitoringSpec


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
