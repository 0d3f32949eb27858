"""The scaler of a model, which owns `spec.replicas`: a KEDA ScaledObject on metrics, or a
HorizontalPodAutoscaler on CPU.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pulumi

from inferplan.components.handles import Endpoint
from inferplan.components.kubernetes import CustomResource, autoscaling, meta
from inferplan.components.naming import PROMETHEUS_LOGIN
from inferplan.components.serving.demand import Timing
from inferplan.components.serving.engine import Site
from inferplan.components.serving.model_parts import PlacedModel, PodModel
from inferplan.components.serving.scaling_spec import (
    IN_FLIGHT_QUERY,
    MODEL,
    PODS,
    POLLING_SECONDS,
    Query,
    ScalingSpec,
)

_SHORTEST_COOLDOWN_SECONDS = 300
# Limits of autoscaling/v2: a window of at most an hour, periods of at most half an hour.
_LONGEST_WINDOW_SECONDS, _LONGEST_PERIOD_SECONDS = 3600, 1800
_GATEWAY_REQUESTS = "inferplan_gateway_requests_total"
# At zero replicas no engine reports anything, so the requests at the gateway start the first
# replica, and no second one.
_WAKING = Query(
    f"clamp_max(sum(increase({_GATEWAY_REQUESTS}{{{MODEL}}}[2m])) + {IN_FLIGHT_QUERY.text}, 1)"
)


def counted(endpoint: Endpoint, spec: PlacedModel, start_seconds: int) -> Endpoint:
    """Return `endpoint` with what the gateway must do for the scaler: count requests, and say how
    long a start takes.
    """
    if spec.scaling is None:
        return endpoint
    wakes = spec.scaling.min == 0
    return replace(
        endpoint,
        counted=wakes or "requests_in_flight" in spec.scaling_signals,
        start_seconds=start_seconds if wakes else None,
    )


def scaler(
    name: str,
    spec: PodModel,
    site: Site,
    *,
    target: Mapping[str, str],
    metadata: meta.ObjectMetaArgsDict,
    times: Timing,
    opts: pulumi.ResourceOptions,
) -> None:
    """Declare the scaler of model `name`, whose workload is `target`; nothing for a fixed number of
    replicas.
    """
    scaling = spec.scaling
    if scaling is None:
        return
    bounds = {
        "scaleTargetRef": dict(target),
        "minReplicas": scaling.min,
        "maxReplicas": scaling.max,
    }
    behavior = _behavior(scaling, times)
    if "cpu" in spec.scaling_signals:
        cpu = {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": scaling.on.cpu},
        }
        written: Any = {
            **bounds,
            "metrics": [{"type": "Resource", "resource": cpu}],
            "behavior": behavior,
        }
        autoscaling.HorizontalPodAutoscaler(
            name,
            metadata=metadata,
            spec=cast("autoscaling.HorizontalPodAutoscalerSpecArgsDict", written),
            opts=opts,
        )
        return
    triggers: list[tuple[str, Query, float]] = [
        (signal, spec.scaling_queries[signal], value)
        for signal, value in spec.scaling_signals.items()
    ]
    if spec.min_replicas == 0:
        triggers.append(("gateway_requests", _WAKING, 1))
    cooldown = cooldown_seconds(scaling, times)
    pods = f"{name}-[a-z0-9]+-[a-z0-9]{{5}}" if spec.pods == 1 else f"{name}-group-[0-9]+"
    labels = {PODS: f'pod=~"{pods}"', MODEL: f'model="{spec.whole(name)}"'}
    CustomResource(
        name,
        api_version="keda.sh/v1alpha1",
        kind="ScaledObject",
        metadata=metadata,
        spec={
            "scaleTargetRef": dict(target),
            "minReplicaCount": scaling.min,
            "maxReplicaCount": scaling.max,
            "pollingInterval": POLLING_SECONDS,
            # Both count only on the way to zero.
            "cooldownPeriod": cooldown,
            "initialCooldownPeriod": cooldown,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": [
                _trigger(signal, query, threshold, site, labels)
                for signal, query, threshold in triggers
            ],
        },
        opts=opts,
    )


def cooldown_seconds(scaling: ScalingSpec, times: Timing) -> int:
    """Return the seconds of low load before a replica stops: a replica that loads for long is
    expensive to start again.
    """
    return (
        max(_SHORTEST_COOLDOWN_SECONDS, times.loading)
        if scaling.cooldown_seconds is None
        else scaling.cooldown_seconds
    )


def _trigger(
    signal: str, query: Query, threshold: float, site: Site, labels: Mapping[str, str]
) -> dict[str, Any]:
    def text(namespace: str) -> str:
        written = query.text
        for mark, chosen in labels.items():
            written = written.replace(f"{{{mark}}}", f'{{namespace="{namespace}",{chosen}}}')
        return written

    modes = {} if site.prometheus_login is None else {"authModes": site.prometheus_login}
    reference = (
        {} if site.prometheus_login is None else {"authenticationRef": {"name": PROMETHEUS_LOGIN}}
    )
    return {
        "type": "prometheus",
        "name": signal.replace("_", "-"),
        "metricType": query.type,
        **reference,
        "metadata": {
            **modes,
            "serverAddress": site.prometheus or "",
            "query": pulumi.Output.from_input(site.namespace).apply(text),
            "threshold": f"{threshold:g}",
            # A metric that is missing is an error, and the number of replicas stays as it is. At
            # zero replicas the pods have none, and KEDA starts the first one by the requests at the
            # gateway.
            "ignoreNullValues": "false",
        },
    }


def _behavior(scaling: ScalingSpec, times: Timing) -> dict[str, Any]:
    """Return the limits of scaling. While a new replica loads, the load that it was started for
    remains, and must not start further ones.
    """
    period = max(1, min(times.loading, _LONGEST_PERIOD_SECONDS))
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": period},
                {"type": "Pods", "value": 1, "periodSeconds": period},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": min(
                cooldown_seconds(scaling, times), _LONGEST_WINDOW_SECONDS
            ),
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        },
    }
