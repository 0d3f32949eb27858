"""The settings of monitoring: the Prometheus that reads the models' metrics."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.spec import DnsLabel, Labels, Spec


def _with_port(url: str) -> str:
    try:
        _ = urlsplit(url).port
    except ValueError:
        raise ValueError(f"The port of {url!r} is out of range. Use a port from 1 to 65535.") from None
    return url


PrometheusUrl = Annotated[
    str,
    StringConstraints(pattern=r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~/-]*)?$"),
    AfterValidator(_with_port),
]


class PrometheusSpec(Spec):
    """The Prometheus that may read the models' metrics, by the namespace and labels of its pods."""

    namespace: DnsLabel
    """The namespace of its pods, for example monitoring."""
    pod_labels: Annotated[Labels, Field(min_length=1)] = {"app.kubernetes.io/name": "prometheus"}
    """Labels of its pods. Default: those of the Prometheus operator and the community charts."""
    url: PrometheusUrl | None = None
    """The address that KEDA queries, for example http://prometheus-operated.monitoring.svc:9090. Required for `replicas.on` with metrics."""


class MonitoringSpec(Spec):
    """Access to metrics. Without it, network policies deny all access."""

    prometheus: PrometheusSpec
