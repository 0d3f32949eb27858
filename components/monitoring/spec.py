"""The settings of monitoring: the Prometheus that reads the models' metrics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.spec import DnsLabel, Labels, Spec


class PrometheusSpec(Spec):
    """The Prometheus that may read the models' metrics, by the namespace and labels of its pods."""

    namespace: DnsLabel
    """The namespace of its pods, for example monitoring."""
    pod_labels: Annotated[Labels, Field(min_length=1)] = {"app.kubernetes.io/name": "prometheus"}
    """Labels of its pods. Default: those of the Prometheus operator and the community charts."""


class MonitoringSpec(Spec):
    """Access to metrics. Without it, network policies deny all access."""

    prometheus: PrometheusSpec
