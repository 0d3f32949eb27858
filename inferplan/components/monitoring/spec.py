"""The settings of monitoring: the Prometheus that reads the metrics, how it finds them, and where
engines send traces.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from inferplan.components.egress_spec import Networks
from inferplan.components.hosts import peers_are_known
from inferplan.components.spec import DnsLabel, DnsName, FieldError, Labels, Spec, checked, rule


def _with_port(url: str) -> Iterator[str]:
    try:
        _ = urlsplit(url).port
    except ValueError:
        yield f"The port of {url!r} is out of range. Use a port from 1 to 65535."


PrometheusUrl = Annotated[
    str,
    StringConstraints(
        pattern=r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~/-]*)?$"
    ),
    checked(_with_port),
]
Exporter: TypeAlias = Literal["keda", "dcgm", "gaudi", "amd"]


class PrometheusLogin(Spec):
    """The login of scalers to Prometheus: a Secret in the stack's namespace."""

    mode: Literal["basic", "bearer"]
    """`basic` reads the keys username and password of the Secret, `bearer` its key token."""
    secret_name: DnsName
    """The name of an existing Secret. Its values are never part of a stack file."""


class PrometheusSpec(Spec):
    """The Prometheus that may read the models' metrics, by the namespace and labels of its pods."""

    namespace: DnsLabel
    """The namespace of its pods, for example monitoring."""
    pod_labels: Annotated[Labels, Field(min_length=1)] = {"app.kubernetes.io/name": "prometheus"}
    """Labels of its pods. Default: those of the Prometheus operator and the community charts."""
    url: PrometheusUrl | None = None
    """The address that KEDA queries, for example http://prometheus-operated.monitoring.svc:9090.
    Required for `replicas.on` with metrics.
    """
    login: PrometheusLogin | None = None
    """The login of KEDA to a Prometheus behind a password or a token. Default: no login."""


class ScrapeSpec(Spec):
    """The way in which Prometheus finds the metrics of models, gateway and others."""

    by: Literal["podMonitors", "annotations"] = "podMonitors"
    """`podMonitors` declares objects of the Prometheus operator, `annotations` marks the pods with
    prometheus.io/scrape.
    """
    interval_seconds: Annotated[int, Field(ge=5, le=60)] = 30
    """Seconds between two scrapes, of podMonitors. The shortest windows of rules, dashboards and
    scalers need a sample a minute.
    """
    preheats: bool = False
    """True adds a sidecar to each preheat that serves the metrics of the run. The Jobs get new
    names, run again and copy nothing.
    """
    exporters: dict[Exporter, DnsLabel] = {}
    """Further pods to scrape, each with its namespace: `keda`, `dcgm` (NVIDIA's GPU operator),
    `gaudi` (Intel's metric exporter), `amd` (AMD's device metrics exporter).
    """

    @rule
    def _exporters_have_objects(self) -> Iterator[FieldError]:
        if self.exporters and self.by == "annotations":
            yield FieldError(
                "Only podMonitors can scrape exporters: their pods belong to other charts. Remove"
                " exporters, or use by: podMonitors",
                "exporters",
            )


class TracingSpec(Spec):
    """The OpenTelemetry collector that gets the traces of vLLM and Triton."""

    url: PrometheusUrl
    """The collector's address for OTLP over HTTP, for example
    http://collector.tracing.svc:4318/v1/traces.
    """
    cidrs: Networks = ()
    """The networks of the collector. Required unless its host is an IP address or a Service."""
    percent: Annotated[float, Field(gt=0, le=100)] = 100
    """Percent of the requests that are traced."""

    @rule
    def _collector_is_known(self) -> Iterator[FieldError]:
        host = urlsplit(self.url).hostname or ""
        if not peers_are_known(host, self.cidrs):
            yield FieldError(
                f"A NetworkPolicy cannot match the host name {host!r}. Add cidrs: [<networks of its"
                f" servers>], or write {host}.svc if it is a Service of the cluster",
                "url",
            )

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)


class RulesSpec(Spec):
    """Recording rules and alerts, as a PrometheusRule of the Prometheus operator."""

    runbooks: PrometheusUrl | None = None
    """The address at which you publish docs/runbooks; alerts link to its pages. Default: alerts
    name the file.
    """


class DashboardsSpec(Spec):
    """Grafana dashboards as ConfigMaps for the sidecar of Grafana's chart."""

    labels: Annotated[Labels, Field(min_length=1)] = {"grafana_dashboard": "1"}
    """Labels by which the sidecar selects ConfigMaps. Default: those of Grafana's chart."""


class MonitoringSpec(Spec):
    """Access to metrics. Without it, network policies deny all access."""

    prometheus: PrometheusSpec
    scrape: ScrapeSpec | None = None
    """The way in which Prometheus finds the metrics. Default: nothing is declared, and Prometheus
    needs a configuration of its own.
    """
    labels: Labels = {}
    """Labels of the monitoring objects, by which operators select them, for example release:
    kube-prometheus-stack.
    """
    rules: RulesSpec | None = None
    """Recording rules of one vocabulary over all engines, and alerts. Default: none."""
    dashboards: DashboardsSpec | None = None
    """Grafana dashboards of fleet, model, consumers, gateway and preheats. Default: none. They read
    the series of `rules`.
    """
    tracing: TracingSpec | None = None
    """The collector of the traces of vLLM and Triton. Default: no traces."""
