"""Checks that nodes and scalers are enough: pools that get the nodes their pods need, and signals
that a scaler can read.
"""

from collections.abc import Iterator

from pydantic.alias_generators import to_camel

from inferplan.components.platforms.node_counts import Shortage, shortages
from inferplan.documents.errors import SpecError
from inferplan.stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check every pool against its pods. Pools whose models exceed the accelerators of all nodes
    are reported at the model.
    """
    for shortage in shortages(settings.cluster, settings):
        pool = settings.node_pools[shortage.pool]
        models = [model for model in settings.models.values() if model.pool == shortage.pool]
        if (
            sum(model.most_accelerators for model in models)
            <= pool.max_nodes * pool.capacity.accelerators
            or pool.accelerator is None
            or not models
        ):
            yield SpecError(
                ("nodePools", shortage.pool, pool.size_field), _message(settings, shortage)
            )
    yield from _scalers(settings)
    yield from _objectives(settings)


def _message(settings: StackSettings, shortage: Shortage) -> str:
    pool, name = settings.node_pools[shortage.pool], f"Pool {shortage.pool!r}"
    count, needed = nodes(shortage.nodes), f"but {shortage.pods} need {shortage.needed}"
    if shortage.grows:
        return (
            f"{name} grows to {count}, {needed}. Write {pool.enlarged(shortage.needed)}, or lower"
            " replicas."
        )
    if pool.initial_nodes == pool.max_nodes:
        return (
            f"{name} has {count}, {needed}. Write {pool.sized(shortage.needed)}, or lower replicas."
        )
    remedies = [f"{each} under cluster" for each in settings.cluster.autoscaler_remedies]
    remedies.append(f"{pool.sized(shortage.needed)} under nodePools.{shortage.pool}")
    return (
        f"{name} has {count} on the first day and nothing adds nodes, {needed}. Write"
        f" {', or '.join(remedies)}."
    )


def _objectives(settings: StackSettings) -> Iterator[SpecError]:
    if settings.monitoring is not None and settings.monitoring.rules is not None:
        return
    alerts = (
        "Add rules: {} under monitoring"
        if settings.monitoring
        else "Add inferplan:monitoring: {prometheus: {namespace: monitoring}, rules: {}}"
    )
    for name, model in settings.models.items():
        if model.slo is not None and model.slo.availability is not None:
            yield SpecError(
                ("models", name, "slo", "availability"),
                f"Only alerts watch availability, and the stack has none. {alerts}.",
            )
        elif model.slo is not None and model.traffic is None:
            problem = "slo is an objective for traffic or for alerts, and the model has neither."
            yield SpecError(
                ("models", name, "slo"),
                f"{problem} Add traffic: {{requestsPerSecond, inputTokens, outputTokens}}."
                f" {alerts}.",
            )


def nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _scalers(settings: StackSettings) -> Iterator[SpecError]:
    prometheus = None if settings.monitoring is None else settings.monitoring.prometheus
    counts = settings.gateway is not None and settings.gateway.counts_requests
    counting = "Use gateway.implementation: nginx" if settings.gateway else "Add gateway"
    for name, model in settings.models.items():
        scaling, signals = model.scaling, model.scaling_signals
        path = ("models", name, "replicas")
        if scaling is None or "ongoing_requests" in signals:
            continue
        if (prometheus is None or prometheus.url is None) and "cpu" not in signals:
            namespace = "monitoring" if prometheus is None else prometheus.namespace
            url = f"http://prometheus-operated.{namespace}.svc:9090"
            remedy = f"Set monitoring.prometheus.url, for example {url}"
            if prometheus is None:
                remedy = (
                    "Add, for example, inferplan:monitoring: {prometheus: {namespace:"
                    f' {namespace}, url: "{url}"}}}}'
                )
            problem = (
                f"The scaler reads {', '.join(map(to_camel, signals))} from Prometheus, whose"
                " address is missing."
            )
            yield SpecError(path, f"{problem} {remedy}, or scale on CPU: on: {{cpu: 70}}.")
        if not counts and "requests_in_flight" in signals:
            problem = "No gateway of this stack counts requests, which requestsInFlight needs."
            yield SpecError(path, f"{problem} {counting}, or another signal under on.")
        elif not counts and scaling.min == 0:
            problem = (
                "min is 0, but no gateway of this stack counts requests, so none would start the"
                " model."
            )
            yield SpecError((*path, "min"), f"{problem} {counting}, or use min: 1.")
