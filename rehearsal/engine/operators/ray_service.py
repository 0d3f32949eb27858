"""What KubeRay would make of a RayService: the head pod and the worker pods of a cluster, and the services before them.

Names, labels and the autoscaler's container beside the head are those of KubeRay v1.7.0. Ray's own command, its probes and the
workers' wait for the head are left out: nothing runs in a pretend pod. A changed cluster comes beside the old one, which goes when the
new one is Ready; with `upgradeStrategy` None the old one stays, as it does under KubeRay.
"""

from __future__ import annotations

from typing import Any

from rehearsal.engine.operators.crew import Crew, child, digest, labelled

Object = dict[str, Any]

_SERVE_PORT = {"name": "serve", "port": 8000, "targetPort": 8000, "protocol": "TCP"}
_HEAD_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}


def crew(live: Object, owned: list[Object]) -> Crew:
    """The children of the RayService `live`; `owned` are those that it has already."""
    name, config = live["metadata"]["name"], live["spec"]["rayClusterConfig"]
    cluster = f"{name}-{digest(_fixed(config))}"
    running = next((each["metadata"]["labels"]["ray.io/cluster"] for each in owned if each["kind"] == "Pod"), cluster)
    strategy = (live["spec"].get("upgradeStrategy") or {}).get("type", "NewCluster")
    held = ""
    if running != cluster and strategy == "None":
        held = "upgradeStrategy is None, so KubeRay would keep the old cluster: delete the RayService to roll the change out"
    workers = [pod for group in config.get("workerGroupSpecs") or [] for pod in _workers(live, cluster, group)]
    children = (_head(live, cluster, config), *workers, *_services(live, cluster))
    status = {"serviceStatus": "Running", "numServeEndpoints": len(workers), "activeServiceStatus": {"rayClusterName": running}}
    if held:
        return Crew(operator="KubeRay", children=(), condition="Ready", status=status, held=held)
    # KubeRay's own Ready waits for addresses too: its reason is NonZeroServeEndpoints.
    endpoints = {f"{name}-serve-svc": len(workers)}
    return Crew(operator="KubeRay", children=children, condition="Ready", status=status, endpoints=endpoints)


def _fixed(config: Object) -> Object:
    """What a new cluster is made for; KubeRay changes the count of workers in place."""
    counts = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
    groups = [{key: value for key, value in group.items() if key not in counts} for group in config.get("workerGroupSpecs") or []]
    return {**config, "workerGroupSpecs": groups}


def _head(live: Object, cluster: str, config: Object) -> Object:
    template = config["headGroupSpec"]["template"]
    if config.get("enableInTreeAutoscaling"):
        beside = _autoscaler(template["spec"]["containers"][0]["image"], config.get("autoscalerOptions") or {})
        template = {**template, "spec": {**template["spec"], "containers": [*template["spec"]["containers"], beside]}}
    return _pod(live, f"{cluster}-head", cluster, template, {"ray.io/node-type": "head", "ray.io/group": "headgroup"})


def _autoscaler(image: str, options: Object) -> Object:
    """What KubeRay puts beside the head, with what `autoscalerOptions` changes of it."""
    amounts = {"cpu": "500m", "memory": "512Mi"}
    given = {key: options[key] for key in ("image", "resources", "securityContext") if key in options}
    return {"name": "autoscaler", "image": image, "resources": {"requests": amounts, "limits": amounts}, **given}


def _workers(live: Object, cluster: str, group: Object) -> list[Object]:
    labels = {"ray.io/node-type": "worker", "ray.io/group": group["groupName"], "ray.io/serve": "true"}
    count = group["replicas"] * group["numOfHosts"]
    return [_pod(live, f"{cluster}-{group['groupName']}-worker-{number}", cluster, group["template"], labels) for number in range(count)]


def _pod(live: Object, name: str, cluster: str, template: Object, labels: dict[str, str]) -> Object:
    ours = {"ray.io/cluster": cluster, "ray.io/is-ray-node": "yes", "ray.io/originated-from-cr-name": live["metadata"]["name"], **labels}
    made = labelled(template, ours)
    return child("v1", "Pod", name, live, made["metadata"]["labels"], spec=made["spec"])


def _services(live: Object, cluster: str) -> list[Object]:
    name = live["metadata"]["name"]
    head = {"ray.io/cluster": cluster, "ray.io/node-type": "head"}
    ports = [{"name": port, "port": number, "targetPort": number, "protocol": "TCP"} for port, number in _HEAD_PORTS.items()]
    serve = {"ray.io/cluster": cluster, "ray.io/serve": "true"}
    return [
        child("v1", "Service", f"{name}-head-svc", live, head, spec={"clusterIP": "None", "selector": head, "ports": ports}),
        child("v1", "Service", f"{name}-serve-svc", live, serve, spec={"selector": serve, "ports": [_SERVE_PORT]}),
    ]
