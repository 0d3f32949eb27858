"""What a user writes about monitoring: which pods read the models' metrics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.spec import DnsLabel, Labels, Spec


class PrometheusSpec(Spec):
    """The Prometheus of the cluster, by the namespace and the labels of its pods."""

    namespace: DnsLabel
    """The namespace that it runs in, such as monitoring."""
    pod_labels: Annotated[Labels, Field(min_length=1)] = {"app.kubernetes.io/name": "prometheus"}
    """Labels of its pods; by default those of the Prometheus operator and of the community's charts."""


class MonitoringSpec(Spec):
    """Who reads metrics; absent, the network lets nobody."""

    prometheus: PrometheusSpec
