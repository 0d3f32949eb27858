"""Careless or hostile edits of whole objects of Kubernetes, each with the rules of which one must
refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.policies.edits import (
    Inputs,
    Mutation,
    add,
    drop,
    first,
    in_every_entry,
    in_file,
    is_engine,
    put,
)

QUEUE = "kueue.x-k8s.io/queue-name"
_SERVER_KEY = re.compile(r"Bearer [^\"]+")
_LARGE = re.compile(r"70b|24b")


def _with_two_more(text: str) -> str:
    line = next(
        each for each in text.splitlines() if re.match(r'\s*"?[a-z][-a-z0-9]*_\d+"?\s+"', each)
    )
    more = [re.sub(r"_\d+", f"_{version}", line, count=1) for version in (901, 902)]
    return text.replace(line, "\n".join([line, *more]))


def _misspelt_queue(workload: Inputs) -> bool | None:
    labels = workload["metadata"]["labels"]
    if QUEUE not in labels:
        return False
    labels[QUEUE] = "servnig"
    return None


def _of_queued(edit: Callable[[Inputs], Any]) -> Callable[[Inputs], bool | None]:
    """An edit of the cluster of a RayService that waits in a queue."""
    return lambda ray: (
        None
        if QUEUE in ray["metadata"]["labels"] and edit(ray["spec"]["rayClusterConfig"]) is not False
        else False
    )


def _without_accelerators(queue: Inputs) -> None:
    for group in queue["spec"]["resourceGroups"]:
        group["coveredResources"] = [each for each in group["coveredResources"] if "/" not in each]


def _with_card(job: Inputs) -> None:
    """A card for a Job that is otherwise placed as it should be."""
    for side in ("requests", "limits"):
        first(job)["resources"][side]["nvidia.com/gpu"] = "1"
    pod = job["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"inferplan.dev/pool": "l40s"}
    pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def _barely_starting(workload: Inputs) -> bool | None:
    """A budget that the rule for every server allows, and that reading a model of 100 GiB and more
    does not keep.
    """
    if not is_engine(workload) or not _LARGE.search(workload["metadata"]["name"]):
        return False
    first(workload)["startupProbe"].update(
        initialDelaySeconds=0, periodSeconds=10, failureThreshold=61
    )
    return None


def _writes_weights(workload: Inputs) -> bool | None:
    """Every claim of an engine writable."""
    if not is_engine(workload):
        return False
    pod = workload["spec"]["template"]["spec"]
    for volume in pod.get("volumes") or []:
        volume.get("persistentVolumeClaim", {}).pop("readOnly", None)
    for mount in first(workload).get("volumeMounts") or []:
        mount.pop("readOnly", None)
    return None


def _available(least: str | int) -> Callable[[Inputs], None]:
    def edit(budget: Inputs) -> None:
        budget["spec"].pop("maxUnavailable", None)
        budget["spec"]["minAvailable"] = least

    return edit


CAPACITY = ("stack-require-pool-capacity", "stack-require-room-in-namespace")
_MISSPELT = Mutation("misspelt queue", ("stack-require-known-queue",), _misspelt_queue)
RESOURCES: dict[str, tuple[Mutation, ...]] = {
    "ClusterQueue": (
        Mutation("no accelerators", ("stack-require-covered-resources",), _without_accelerators),
    ),
    "ResourceQuota": (
        Mutation(
            "no pod", ("stack-require-room-in-namespace",), put({"pods": "0"}, "spec", "hard")
        ),
    ),
    "HorizontalPodAutoscaler": (
        Mutation(
            "a fixed number",
            ("stack-disallow-replicas-of-autoscaled",),
            put("llama-3-8b", "spec", "scaleTargetRef", "name"),
        ),
    ),
    "Deployment": (
        _MISSPELT,
        Mutation(
            "every replica stops",
            ("stack-require-replicas-during-rollout",),
            lambda r: (
                r["spec"].get("replicas", 1) > 1
                and put({"type": "Recreate"}, "spec", "strategy")(r) is None
            ),
        ),
        Mutation(
            "no spread",
            ("pod-require-spread",),
            lambda r: (
                r["spec"].get("replicas", 1) > 1
                and drop("spec", "template", "spec", "topologySpreadConstraints")(r)
            ),
        ),
        Mutation(
            "no label",
            ("object-require-managed-by",),
            drop("metadata", "labels", "app.kubernetes.io/managed-by"),
        ),
        Mutation(
            "loads for longer than it may",
            ("stack-require-startup-budget-for-model",),
            _barely_starting,
        ),
        Mutation(
            "weights that servers write", ("stack-require-read-only-weights",), _writes_weights
        ),
        Mutation(
            "many replicas",
            CAPACITY,
            lambda r: is_engine(r) and put(999, "spec", "replicas")(r) is None,
        ),
        Mutation(
            "other pool",
            ("stack-require-matching-pool",),
            lambda r: (
                is_engine(r)
                and put(
                    {"inferplan.dev/pool": "misspelt"}, "spec", "template", "spec", "nodeSelector"
                )(r)
                is None
            ),
        ),
        Mutation(
            "surge",
            ("stack-require-room-for-rollout",),
            lambda r: (
                is_engine(r)
                and put({"maxSurge": 99, "maxUnavailable": 0}, "spec", "strategy", "rollingUpdate")(
                    r
                )
                is None
            ),
        ),
    ),
    "HTTPRoute": (
        Mutation(
            "default timeout",
            ("network-require-route-timeout",),
            lambda r: r["spec"]["rules"][0].pop("timeouts", None) is not None,
        ),
    ),
    "SecurityPolicy": (
        Mutation(
            "keys in addresses",
            ("network-require-key-policy",),
            put([{"params": ["key"]}], "spec", "apiKeyAuth", "extractFrom"),
        ),
        Mutation(
            "key handed on", ("network-require-key-policy",), drop("spec", "apiKeyAuth", "sanitize")
        ),
        Mutation(
            "no keys asked for",
            ("network-require-key-policy", "stack-require-gateway-before-models"),
            drop("spec", "apiKeyAuth", "credentialRefs"),
        ),
    ),
    "RayService": (
        Mutation(
            "head outside",
            ("ray-restrict-doors",),
            put("LoadBalancer", "spec", "rayClusterConfig", "headGroupSpec", "serviceType"),
        ),
        Mutation(
            "no token", ("ray-require-token",), drop("spec", "rayClusterConfig", "authOptions")
        ),
        _MISSPELT,
        Mutation(
            "a group called head",
            ("ray-limit-queued-groups",),
            _of_queued(lambda ray: ray["workerGroupSpecs"][0].update(groupName="head")),
        ),
        Mutation(
            "Ray's own autoscaler",
            ("ray-limit-queued-groups",),
            _of_queued(lambda ray: ray.update(enableInTreeAutoscaling=True)),
        ),
        Mutation(
            "eighteen groups",
            ("ray-limit-queued-groups",),
            _of_queued(lambda ray: ray["workerGroupSpecs"].extend([{}] * 18)),
        ),
        Mutation(
            "many workers",
            CAPACITY,
            lambda r: r["spec"]["rayClusterConfig"]["workerGroupSpecs"][0].update(
                replicas=999, maxReplicas=999
            ),
        ),
    ),
    "Secret": (
        Mutation(
            "guessable client key",
            ("stack-require-client-keys",),
            in_every_entry("gateway-clients", lambda _key: "hunter2-hunter2"),
        ),
        Mutation(
            "Bearer in the Secret",
            ("stack-require-client-keys",),
            in_every_entry("gateway-clients", lambda key: f"Bearer {key}"),
        ),
        Mutation(
            "guessable key",
            ("key-require-entropy",),
            in_file("api-key", lambda _key: "hunter2-hunter2"),
        ),
        Mutation(
            "guessable server key",
            ("key-require-entropy",),
            in_file("keys.conf", lambda text: _SERVER_KEY.sub("Bearer hunter2", text)),
        ),
        Mutation(
            "three versions", ("key-limit-valid-versions",), in_file("keys.conf", _with_two_more)
        ),
        Mutation(
            "an old key",
            ("key-limit-age",),
            lambda r: (
                "inferplan.dev/issued" in r["metadata"].get("annotations", {})
                and put("2024-01-31", "metadata", "annotations", "inferplan.dev/issued")(r) is None
            ),
        ),
    ),
    "Job": (
        Mutation("no deadline", ("job-require-end",), drop("spec", "activeDeadlineSeconds")),
        Mutation("GPU in Job", ("accelerator-disallow-in-preheat",), _with_card),
        Mutation(
            "claim in Job",
            ("accelerator-disallow-in-preheat",),
            add(
                {"name": "card", "resourceClaimTemplateName": "cards"},
                "spec",
                "template",
                "spec",
                "resourceClaims",
            ),
        ),
    ),
    "Service": (
        Mutation("node port", ("network-disallow-node-port",), put("NodePort", "spec", "type")),
        Mutation(
            "load balancer", ("network-disallow-node-port",), put("LoadBalancer", "spec", "type")
        ),
        Mutation(
            "external address",
            ("network-disallow-node-port",),
            put(["192.0.2.1"], "spec", "externalIPs"),
        ),
        Mutation("called vllm", ("service-disallow-name-vllm",), put("vllm", "metadata", "name")),
    ),
    "Ingress": (
        Mutation(
            "any host",
            ("network-require-ingress-host",),
            lambda r: r["spec"]["rules"][0].pop("host") and None,
        ),
        Mutation(
            "wildcard host",
            ("network-require-ingress-host",),
            lambda r: r["spec"]["rules"][0].update(host="*.example"),
        ),
        Mutation("no TLS", ("network-require-tls",), drop("spec", "tls")),
        Mutation(
            "snippet",
            ("network-disallow-snippets",),
            put(
                "x", "metadata", "annotations", "nginx.ingress.kubernetes.io/configuration-snippet"
            ),
        ),
    ),
    "NetworkPolicy": (
        Mutation(
            "the whole internet",
            ("stack-restrict-internet-egress",),
            add(
                {
                    "to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}],
                    "ports": [{"port": 8080, "protocol": "TCP"}],
                },
                "spec",
                "egress",
            ),
        ),
        Mutation(
            "every port in",
            ("network-require-policy-ports", "stack-require-policy-before-models"),
            add({}, "spec", "ingress"),
        ),
        Mutation("every port out", ("network-require-policy-ports",), add({}, "spec", "egress")),
        Mutation(
            "metadata",
            ("network-disallow-metadata-egress",),
            add(
                {"to": [{"ipBlock": {"cidr": "169.254.0.0/16"}}], "ports": [{"port": 80}]},
                "spec",
                "egress",
            ),
        ),
    ),
    "PodDisruptionBudget": (
        Mutation("every disruption", ("object-restrict-settings",), _available("0")),
        Mutation(
            "no disruption",
            ("rollout-disallow-blocking-budget",),
            put({"maxUnavailable": 0}, "spec"),
        ),
        Mutation(
            "all available",
            ("rollout-disallow-blocking-budget",),
            _available("100%"),
        ),
        Mutation(
            "nobody selected",
            ("stack-require-disruption-budget",),
            put({"matchLabels": {"app": "nobody"}}, "spec", "selector"),
        ),
        Mutation(
            "as many as replicas",
            ("stack-disallow-budget-of-all-replicas",),
            _available(99),
        ),
    ),
    "Namespace": (
        Mutation(
            "privileged namespace",
            ("namespace-require-pod-security",),
            put("privileged", "metadata", "labels", "pod-security.kubernetes.io/enforce"),
        ),
        Mutation(
            "unpinned profile",
            ("namespace-require-pod-security",),
            drop("metadata", "labels", "pod-security.kubernetes.io/enforce-version"),
        ),
    ),
    "ConfigMap": (
        Mutation(
            "upstream unverified",
            ("object-require-verified-tls",),
            put("proxy_ssl_verify off;", "data", "note"),
        ),
        Mutation(
            "script that installs",
            ("pod-restrict-mounted-files",),
            put("pip install nvitop", "data", "start.sh"),
        ),
        Mutation(
            "key in clear", ("secret-disallow-in-config-map",), put("0123456789", "data", "api-key")
        ),
        Mutation(
            "private key",
            ("secret-disallow-in-config-map",),
            put("-----BEGIN PRIVATE KEY-----", "data", "note"),
        ),
    ),
    "PersistentVolume": (
        Mutation(
            "volume of the node",
            ("volume-disallow-host-path",),
            put({"path": "/srv"}, "spec", "hostPath"),
        ),
        Mutation(
            "deleted volume",
            ("volume-require-retain",),
            put("Delete", "spec", "persistentVolumeReclaimPolicy"),
        ),
        Mutation(
            "no mount options",
            ("volume-require-nfs-options",),
            lambda r: "nfs" in r["spec"] and drop("spec", "mountOptions")(r),
        ),
    ),
}
