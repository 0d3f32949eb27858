"""Stub of KubeRay: the head pod and the worker pods of a RayService or RayCluster, and their Services.

Names, labels, services and containers are those of KubeRay v1.7.0. Ray's command, variables, probes and token and the
autoscaler's account are missing: no container runs. A changed cluster starts next to the old one, which is deleted when the new
one is ready; with `upgradeStrategy` None the old one stays, as with KubeRay.
"""

from inferplan.rehearsal.engine.apply.operators.stub import Object, Stub, child, digest, marked
from inferplan.rehearsal.errors import ObjectFailed

_SERVE_PORT = 8000
_PORTS = {"client": 10001, "gcs-server": 6379, "dashboard": 8265, "serve": _SERVE_PORT}
_METRICS_PORT = {"metrics": 8080}


def stub(live: Object, owned: list[Object]) -> Stub:
    """The stub of the RayService `live`, whose children are `owned`. Raises ObjectFailed if KubeRay would create no serve service."""
    name, config = live["metadata"]["name"], live["spec"]["rayClusterConfig"]
    cluster = f"{name}-{revision(config)}"
    running = next((each["metadata"]["labels"]["ray.io/cluster"] for each in owned if each["kind"] == "Pod"), cluster)
    strategy = (live["spec"].get("upgradeStrategy") or {}).get("type", "NewCluster")
    keep_reason = ""
    if running != cluster and strategy == "None":
        keep_reason = "upgradeStrategy is None, so KubeRay would keep the old cluster: delete the RayService to roll out the change"
    first, *workers = pods_of(live, config, cluster)
    status = {"serviceStatus": "Running", "numServeEndpoints": len(workers), "activeServiceStatus": {"rayClusterName": running}}
    # KubeRay's Ready also waits for addresses, of the old or the new cluster; UpgradeInProgress says which.
    endpoints = {} if keep_reason else {f"{name}-serve-svc": len(workers)}
    return Stub(
        operator="KubeRay",
        children=() if keep_reason else (first, *workers, *_services(live, cluster)),
        condition="Ready",
        status=status,
        settled={"UpgradeInProgress": "False"},
        endpoints=endpoints,
        keep_reason=keep_reason,
    )


def cluster_stub(live: Object, owned: list[Object]) -> Stub:
    """The stub of the RayCluster `live`. Workers are added in place; another change replaces all pods or none, as `upgradeStrategy` says."""
    name, config = live["metadata"]["name"], live["spec"]
    pods = pods_of(live, config, name, f"{name}-{revision(config)[:5]}")
    names = {each["metadata"]["name"] for each in owned if each["kind"] == "Pod"}
    recreates = (config.get("upgradeStrategy") or {}).get("type") == "Recreate"
    keeps = bool(names) and pods[0]["metadata"]["name"] not in names and not recreates
    reason = "upgradeStrategy is not Recreate, so KubeRay would keep the old pods: delete the RayCluster to roll out the change"
    return Stub(
        operator="KubeRay",
        children=() if keeps else (*pods, head_service(live, config, name)),
        condition="RayClusterProvisioned",
        status={"state": "ready"},
        keep_reason=reason if keeps else "",
    )


def revision(config: Object) -> str:
    """The digest of the fields whose change creates new pods; KubeRay changes the number of workers in place."""
    counts = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
    groups = [{key: value for key, value in group.items() if key not in counts} for group in _groups(config)]
    return digest([{**config, "workerGroupSpecs": groups}, _head_template(config)])


def pods_of(live: Object, config: Object, cluster: str, prefix: str = "") -> list[Object]:
    """The pods of the Ray cluster `cluster`, the head first; their names begin with `prefix`, by default the cluster's name."""
    prefix = prefix or cluster
    head = _pod(live, f"{prefix}-head", cluster, _head_template(config), _node(cluster, "head", "headgroup", serves=False))
    return [head, *(pod for group in _groups(config) for pod in _workers(live, cluster, prefix, group))]


def _groups(config: Object) -> list[Object]:
    return [{**group, "template": _worker_template(config, group["template"])} for group in config.get("workerGroupSpecs") or []]


def _head_template(config: Object) -> Object:
    template = config["headGroupSpec"]["template"]
    if not config.get("enableInTreeAutoscaling"):
        return template
    autoscaler = _autoscaler(template["spec"]["containers"][0]["image"], config.get("autoscalerOptions") or {})
    spec = {**template["spec"], "containers": [*template["spec"]["containers"], autoscaler]}
    return {**template, "spec": {**spec, **_restarts(config)}}


def _autoscaler(image: str, options: Object) -> Object:
    """The container that KubeRay adds to the head pod, as `autoscalerOptions` says."""
    amounts = {"cpu": "500m", "memory": "512Mi"}
    overrides = {key: options[key] for key in ("image", "resources", "securityContext") if key in options}
    return {"name": "autoscaler", "image": image, "resources": {"requests": amounts, "limits": amounts}, **overrides}


def _worker_template(config: Object, template: Object) -> Object:
    """The template of a group's workers with the container that waits for the head: its requests count for scheduling and quota."""
    spec, ray = template["spec"], template["spec"]["containers"][0]
    amounts = {"cpu": "200m", "memory": "256Mi"}
    copied = {key: ray[key] for key in ("image", "imagePullPolicy", "securityContext", "env", "volumeMounts") if key in ray}
    waiting = {"name": "wait-gcs-ready", **copied, "resources": {"requests": amounts, "limits": amounts}}
    return {**template, "spec": {**spec, "initContainers": [*(spec.get("initContainers") or []), waiting], **_restarts(config)}}


def _restarts(config: Object) -> Object:
    second = (config.get("autoscalerOptions") or {}).get("version") == "v2"
    return {"restartPolicy": "Never"} if config.get("enableInTreeAutoscaling") and second else {}


def _workers(live: Object, cluster: str, prefix: str, group: Object) -> list[Object]:
    name, hosts = group["groupName"], group["numOfHosts"]
    pods = []
    for number in range(group["replicas"] * hosts):
        labels = {**_node(cluster, "worker", name, serves=True), "ray.io/worker-group-replica-index": str(number // hosts)}
        pods.append(_pod(live, f"{prefix}-{name}-worker-{number}", cluster, group["template"], labels))
    return pods


def _node(cluster: str, kind: str, group: str, *, serves: bool) -> dict[str, str]:
    return {**_identity(cluster, kind), "ray.io/group": group, "ray.io/is-ray-node": "yes", "ray.io/serve": str(serves).lower()}


def _identity(cluster: str, kind: str) -> dict[str, str]:
    ours = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator"}
    return {**ours, "ray.io/cluster": cluster, "ray.io/identifier": f"{cluster}-{kind}", "ray.io/node-type": kind}


def _pod(live: Object, name: str, cluster: str, template: Object, labels: dict[str, str]) -> Object:
    # KubeRay keeps the template's other labels.
    others = {key: value for key, value in ((template.get("metadata") or {}).get("labels") or {}).items() if not key.startswith("ray.io/")}
    pods = marked(template, labels={**labels, **others, "ray.io/cluster": cluster})
    return child("v1", "Pod", name, live, pods["metadata"]["labels"], spec=pods["spec"])


def _services(live: Object, cluster: str) -> list[Object]:
    name = live["metadata"]["name"]
    origin = {"ray.io/originated-from-cr-name": name, "ray.io/originated-from-crd": "RayService"}
    ports = _ports(live["spec"]["rayClusterConfig"])
    served = [_port(port, number) for port, number in ports.items() if port == "serve" or port.startswith("serve-")]
    if not served:
        raise ObjectFailed(
            f"KubeRay would create no Service {name}-serve-svc: no port of the head's first container is named serve",
            f"name port {_SERVE_PORT} of that container serve",
        )
    serve = {"selector": {"ray.io/cluster": cluster, "ray.io/serve": "true"}, "ports": served}
    named = {**origin, "ray.io/identifier": f"{name}-head", "ray.io/node-type": "head"}
    return [
        head_service(live, live["spec"]["rayClusterConfig"], cluster),
        child("v1", "Service", f"{name}-head-svc", live, named, spec=_internal(live["spec"]["rayClusterConfig"], cluster)),
        child("v1", "Service", f"{name}-serve-svc", live, {**origin, "ray.io/serve": f"{name}-serve"}, spec=serve),
    ]


def head_service(live: Object, config: Object, cluster: str) -> Object:
    """The Service of the head of the Ray cluster `cluster`."""
    return child("v1", "Service", f"{cluster}-head-svc", live, _identity(cluster, "head"), spec=_internal(config, cluster))


def _internal(config: Object, cluster: str) -> Object:
    ports = [{**_port(port, number), "appProtocol": "tcp"} for port, number in _ports(config).items()]
    return {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _identity(cluster, "head"), "ports": ports}


def _ports(config: Object) -> dict[str, int]:
    ray = config["headGroupSpec"]["template"]["spec"]["containers"][0]
    declared = {each.get("name") or f"{each['containerPort']}-port": each["containerPort"] for each in ray.get("ports") or []}
    return {**_METRICS_PORT, **(declared or _PORTS)}


def _port(name: str, number: int) -> Object:
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
