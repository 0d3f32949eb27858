"""Stub of KubeRay: the head pod and the worker pods of a RayService or RayCluster, and their
Services.

Names, labels, services and containers are those of KubeRay v1.7.0. Ray's command, variables, probes
and token and the autoscaler's account are missing: no container runs. A changed cluster starts next
to the old one, which is deleted when the new one is ready; with `upgradeStrategy` None the old one
stays, as with KubeRay.
"""

from inferplan.errors import ObjectFailed
from inferplan.rehearsal.apply.operators.stub import KEPT, Object, Stub, digest, objects

_SERVE_PORT = 8000
_PORTS = {"client": 10001, "gcs-server": 6379, "dashboard": 8265, "serve": _SERVE_PORT}
_METRICS_PORT = {"metrics": 8080}
_GROUP = "ray.io/group"


def stub(live: Object, owned: list[Object]) -> Stub:
    """The stub of the RayService `live`, whose children are `owned`. Raises ObjectFailed if KubeRay
    would create no serve service.
    """
    name, config = live["metadata"]["name"], live["spec"]["rayClusterConfig"]
    cluster = f"{name}-{revision(config)}"
    running = next(
        (each["metadata"]["labels"]["ray.io/cluster"] for each in owned if each["kind"] == "Pod"),
        cluster,
    )
    strategy = (live["spec"].get("upgradeStrategy") or {}).get("type", "NewCluster")
    keep_reason = ""
    if running != cluster and strategy == "None":
        keep_reason = (
            "upgradeStrategy is None, so KubeRay would keep the old cluster: delete the RayService"
            f" {KEPT}"
        )
    workers = sum(group["replicas"] * group["numOfHosts"] for group in _groups(config))
    status = {
        "serviceStatus": "Running",
        "numServeEndpoints": workers,
        "activeServiceStatus": {"rayClusterName": running},
    }
    # KubeRay's Ready also waits for addresses, of the old or the new cluster; UpgradeInProgress
    # says which.
    endpoints = {} if keep_reason else {f"{name}-serve-svc": workers}
    return Stub(
        operator="KubeRay",
        children=() if keep_reason else _children(live, config, cluster, cluster),
        condition="Ready",
        status=status,
        settled={"UpgradeInProgress": "False"},
        endpoints=endpoints,
        keep_reason=keep_reason,
    )


def cluster_stub(live: Object, owned: list[Object]) -> Stub:
    """The stub of the RayCluster `live`. Workers and groups are added in place; another change
    replaces all pods or none (`upgradeStrategy`).
    """
    name, config = live["metadata"]["name"], live["spec"]
    children = _children(live, config, name, f"{name}-{revision(config)[:5]}", of_service=False)
    names = {
        each["metadata"]["name"]: each["metadata"]["labels"].get(_GROUP)
        for each in owned
        if each["kind"] == "Pod"
    }
    recreates = (config.get("upgradeStrategy") or {}).get("type") == "Recreate"
    keeps = bool(names) and children[0]["metadata"]["name"] not in names and not recreates
    former = {
        group
        for each, group in names.items()
        if each not in {child["metadata"]["name"] for child in children}
    }
    added = tuple(
        each
        for each in children
        if each["kind"] == "Pod" and each["metadata"]["labels"][_GROUP] not in former
    )
    reason = (
        "upgradeStrategy is not Recreate, so KubeRay would keep the old pods: delete the RayCluster"
        f" {KEPT}"
    )
    return Stub(
        operator="KubeRay",
        children=added if keeps else children,
        condition="RayClusterProvisioned",
        status={"state": "ready"},
        keep_reason=reason if keeps else "",
    )


def revision(config: Object) -> str:
    """The digest of the fields whose change creates new pods; KubeRay changes the number of workers
    in place.
    """
    counts = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
    groups = [
        {key: value for key, value in group.items() if key not in counts}
        for group in _groups(config)
    ]
    return digest([{**config, "workerGroupSpecs": groups}, _head_template(config)])


def _children(
    live: Object, config: Object, cluster: str, prefix: str, *, of_service: bool = True
) -> tuple[Object, ...]:
    """The pods of the Ray cluster `cluster`, the head first, and its Services; the names of pods
    begin with `prefix`.
    """
    ray = config["headGroupSpec"]["template"]["spec"]["containers"][0]
    declared = {
        each.get("name") or f"{each['containerPort']}-port": each["containerPort"]
        for each in ray.get("ports") or []
    }
    ports = {**_METRICS_PORT, **(declared or _PORTS)}
    if of_service and not any(port == "serve" or port.startswith("serve-") for port in ports):
        raise ObjectFailed(
            f"KubeRay would create no Service {live['metadata']['name']}-serve-svc: no port of the"
            " head's first container is named serve",
            f"name port {_SERVE_PORT} of that container serve",
        )
    groups = _groups(config)
    templates = [*(each["template"] for each in groups), _head_template(config)]
    children = objects(
        "ray_service",
        live,
        cluster=cluster,
        prefix=prefix,
        groups=groups,
        ports=ports,
        of_service=of_service,
    )
    for pod in (each for each in children if each["kind"] == "Pod"):
        labels, template = pod["metadata"]["labels"], templates[pod["spec"]]
        written = ((template.get("metadata") or {}).get("labels") or {}).items()
        # KubeRay keeps the template's other labels.
        pod["metadata"]["labels"] = {
            **dict(written),
            **labels,
            **{key: value for key, value in written if not key.startswith("ray.io/")},
        }
        pod["spec"] = template["spec"]
    return children


def _groups(config: Object) -> list[Object]:
    return [
        {**group, "template": _worker_template(config, group["template"])}
        for group in config.get("workerGroupSpecs") or []
    ]


def _head_template(config: Object) -> Object:
    template = config["headGroupSpec"]["template"]
    if not config.get("enableInTreeAutoscaling"):
        return template
    autoscaler = _autoscaler(
        template["spec"]["containers"][0]["image"], config.get("autoscalerOptions") or {}
    )
    spec = {**template["spec"], "containers": [*template["spec"]["containers"], autoscaler]}
    return {**template, "spec": {**spec, **_restarts(config)}}


def _autoscaler(image: str, options: Object) -> Object:
    """The container that KubeRay adds to the head pod, as `autoscalerOptions` says."""
    amounts = {"cpu": "500m", "memory": "512Mi"}
    overrides = {
        key: options[key] for key in ("image", "resources", "securityContext") if key in options
    }
    return {
        "name": "autoscaler",
        "image": image,
        "resources": {"requests": amounts, "limits": amounts},
        **overrides,
    }


def _worker_template(config: Object, template: Object) -> Object:
    """The template of a group's workers with the container that waits for the head: its requests
    count for scheduling and quota.
    """
    spec, ray = template["spec"], template["spec"]["containers"][0]
    amounts = {"cpu": "200m", "memory": "256Mi"}
    copied = {
        key: ray[key]
        for key in ("image", "imagePullPolicy", "securityContext", "env", "volumeMounts")
        if key in ray
    }
    waiting = {
        "name": "wait-gcs-ready",
        **copied,
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        **template,
        "spec": {
            **spec,
            "initContainers": [*(spec.get("initContainers") or []), waiting],
            **_restarts(config),
        },
    }


def _restarts(config: Object) -> Object:
    second = (config.get("autoscalerOptions") or {}).get("version") == "v2"
    return {"restartPolicy": "Never"} if config.get("enableInTreeAutoscaling") and second else {}
