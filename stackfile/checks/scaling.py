"""Checks that whatever a scaler needs is there: Prometheus, and a gateway that counts requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from components.spec import SpecError

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check every model whose number of replicas is a range."""
    prometheus = None if settings.monitoring is None else settings.monitoring.prometheus
    counts = settings.gateway is not None and settings.gateway.counts_requests
    for name, model in settings.models.items():
        scaling, signals = model.scaling, model.scaling_signals
        path = ("models", name, "replicas")
        if scaling is None or "ongoing_requests" in signals:
            continue
        if (prometheus is None or prometheus.url is None) and "cpu" not in signals:
            listed = ", ".join(map(to_camel, signals))
            namespace = "monitoring" if prometheus is None else prometheus.namespace
            url = f"http://prometheus-operated.{namespace}.svc:9090"
            remedy = (
                f'Add, for example, inferplan:monitoring: {{prometheus: {{namespace: {namespace}, url: "{url}"}}}}'
                if prometheus is None
                else f"Set monitoring.prometheus.url, for example {url}"
            )
            yield SpecError(
                path,
                f"The scaler reads {listed} from Prometheus, whose address is missing. {remedy}, or scale on CPU: on: {{cpu: 70}}.",
            )
        if not counts and "requests_in_flight" in signals:
            remedy = "Use gateway.implementation: nginx" if settings.gateway else "Add gateway"
            yield SpecError(
                path, f"No gateway of this stack counts requests, which requestsInFlight needs. {remedy}, or another signal under on."
            )
        elif not counts and scaling.min == 0:
            remedy = "Use gateway.implementation: nginx" if settings.gateway else "Add gateway"
            yield SpecError(
                (*path, "min"),
                f"min is 0, but no gateway of this stack counts requests, so none would start the model. {remedy}, or use min: 1.",
            )
