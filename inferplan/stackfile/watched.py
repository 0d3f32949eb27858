"""A stack as its rules for Prometheus see it."""

from collections import defaultdict

from inferplan.components.monitoring.objectives import WatchedModel
from inferplan.components.monitoring.rules import WatchedStack
from inferplan.stackfile.stack import StackSettings


def watched(spec: StackSettings) -> WatchedStack:
    monitoring = spec.monitoring
    counted = (
        spec.gateway is not None
        and spec.gateway.counts_requests
        and monitoring is not None
        and monitoring.scrape is not None
    )
    models = [
        WatchedModel(
            name=name,
            engine=model.engine,
            min_replicas=model.min_replicas,
            max_replicas=model.max_replicas,
            slo=model.slo,
            counted=counted,
        )
        for name, model in spec.models.items()
    ]
    return WatchedStack(
        namespace=spec.namespace,
        models=models,
        expiries={
            (name, version): last
            for name, each in spec.consumers.items()
            for version, last in each.expires.items()
        },
        monthly_usd=None if spec.budget is None else spec.budget.monthly_usd,
        node_prices=list(_node_prices(spec).values()),
        exporters=()
        if monitoring is None or monitoring.scrape is None
        else tuple(monitoring.scrape.exporters),
        runbooks=None
        if monitoring is None or monitoring.rules is None
        else monitoring.rules.runbooks,
    )


def _node_prices(spec: StackSettings) -> dict[str, tuple[float, list[str]]]:
    """Return the list price of a node of each pool that has one, with the models of the pool."""
    models: dict[str, list[str]] = defaultdict(list)
    for name, model in spec.models.items():
        models[model.pool].append(name)
    prices = {pool: spec.cluster.node_usd_per_hour(spec.node_pools[pool]) for pool in models}
    return {pool: (price, models[pool]) for pool, price in prices.items() if price is not None}
