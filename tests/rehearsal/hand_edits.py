"""Changes that people, scalers and controllers make to the objects of a stack on its cluster, as
the requests that they send.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from inferplan.kube.api import Api

INFERENCE = "namespaces/inference"
MODEL = f"/apis/apps/v1/{INFERENCE}/deployments/llama-3-8b"
GATEWAY = f"/apis/apps/v1/{INFERENCE}/deployments/gateway"
SERVICE = f"/api/v1/{INFERENCE}/services/llama-3-8b"
SCALER = f"/apis/autoscaling/v2/{INFERENCE}/horizontalpodautoscalers/gateway"
INGRESS = f"/apis/networking.k8s.io/v1/{INFERENCE}/ingresses/gateway"
BUDGET = f"/apis/policy/v1/{INFERENCE}/poddisruptionbudgets/gateway"
ROLE = f"/apis/rbac.authorization.k8s.io/v1/{INFERENCE}/roles/reader"
SETTINGS = f"/api/v1/{INFERENCE}/configmaps/settings"
ACCOUNT = f"/api/v1/{INFERENCE}/serviceaccounts/llama-3-8b"
KEY = f"/api/v1/{INFERENCE}/secrets/consumer-chat"
DNS = f"/apis/networking.k8s.io/v1/{INFERENCE}/networkpolicies/allow-dns"
QUOTA = f"/api/v1/{INFERENCE}/resourcequotas/accelerators"
NAMESPACE = "/api/v1/namespaces/inference"
NODE, OTHER_NODE = "/api/v1/nodes/l40s-0", "/api/v1/nodes/system-1"
JOB = f"/apis/batch/v1/{INFERENCE}/jobs/llama-3-8b-preheat-*"
CLAIM = f"/api/v1/{INFERENCE}/persistentvolumeclaims/nfs-*"
VOLUME = "/api/v1/persistentvolumes/inference-nfs-*"
CLASS = "/apis/node.k8s.io/v1/runtimeclasses/habana"
HIDDEN = "hunter2-by-hand"
"""What a person writes into a Secret: no output may have it."""

_MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


@dataclass(frozen=True)
class Edit:
    """A patch of the object at `path` by `manager`; `field` is the path that `drift` names, "" for
    the object itself.
    """

    name: str
    path: str
    field: str
    body: Any = None
    kind: str = "merge"
    manager: str = "kubectl-edit"
    undone: bool = True
    """True if an update sets it back; False for what the stack does not declare."""

    def send(self, api: Api) -> None:
        """Make the change; without a body, delete the object."""
        path = resolved(api, self.path)
        if self.body is None:
            api.request("DELETE", path)
        else:
            api.request(
                "PATCH",
                path,
                body=self.body,
                media=_MEDIA[self.kind],
                query={"fieldManager": self.manager},
            )


def resolved(api: Api, path: str) -> str:
    """`path` with the name of the first object that starts with what comes before a final `*`."""
    if not path.endswith("*"):
        return path
    folder, _, start = path.removesuffix("*").rpartition("/")
    names = sorted(each["metadata"]["name"] for each in api.request("GET", folder)["items"])
    return f"{folder}/{next(each for each in names if each.startswith(start))}"


def _pod(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": fields}}}


def _server(**fields: Any) -> dict[str, Any]:
    return _pod(containers=[{"name": "server", **fields}])


_CONTAINER = "spec.template.spec.containers[0]"
_OURS, _ROLE = "app.kubernetes.io/part-of", "inferplan.dev/role"

EDITS = (
    Edit(
        "image",
        MODEL,
        f"{_CONTAINER}.image",
        _server(image="docker.io/vllm/vllm-openai:v0.1.0"),
        "strategic",
        "kubectl-set",
    ),
    Edit(
        "a variable of ours",
        MODEL,
        f"{_CONTAINER}.env[",
        _server(env=[{"name": "HOME", "value": "/elsewhere"}]),
        "strategic",
        "kubectl-set",
    ),
    Edit(
        "another variable",
        MODEL,
        f"{_CONTAINER}.env[",
        _server(env=[{"name": "DEBUG", "value": "1"}]),
        "strategic",
        undone=False,
    ),
    Edit(
        "arguments", MODEL, f"{_CONTAINER}.args", _server(args=["--model=/elsewhere"]), "strategic"
    ),
    Edit(
        "memory",
        MODEL,
        f"{_CONTAINER}.resources.limits.memory",
        _server(resources={"limits": {"memory": "200Gi"}}),
        "strategic",
    ),
    Edit(
        "probe",
        MODEL,
        f"{_CONTAINER}.startupProbe.failureThreshold",
        _server(startupProbe={"failureThreshold": 1}),
        "strategic",
    ),
    Edit(
        "another container",
        MODEL,
        "spec.template.spec.containers[",
        _pod(containers=[{"name": "side", "image": "busybox:1"}]),
        "strategic",
        undone=False,
    ),
    Edit(
        "tolerations",
        MODEL,
        "spec.template.spec.tolerations",
        _pod(tolerations=[{"operator": "Exists"}]),
    ),
    Edit(
        "grace period",
        MODEL,
        "spec.template.spec.terminationGracePeriodSeconds",
        _pod(terminationGracePeriodSeconds=70),
    ),
    Edit(
        "strategy",
        MODEL,
        "spec.strategy.rollingUpdate.max",
        {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}},
    ),
    Edit(
        "history that the stack sets",
        MODEL,
        "spec.revisionHistoryLimit",
        {"spec": {"revisionHistoryLimit": 1}},
    ),
    Edit(
        "seconds that the stack does not set",
        MODEL,
        "spec.minReadySeconds",
        {"spec": {"minReadySeconds": 9}},
        undone=False,
    ),
    Edit(
        "replicas", f"{MODEL}/scale", "spec.replicas", {"spec": {"replicas": 3}}, manager="kubectl"
    ),
    Edit(
        "pod label",
        MODEL,
        f'spec.template.metadata.labels["{_ROLE}"]',
        {"spec": {"template": {"metadata": {"labels": {_ROLE: "other"}}}}},
    ),
    Edit(
        "a label of ours removed",
        MODEL,
        f'metadata.labels["{_OURS}"]',
        {"metadata": {"labels": {_OURS: None}}},
        manager="kubectl-label",
    ),
    Edit(
        "Service port",
        SERVICE,
        "spec.ports",
        [{"op": "replace", "path": "/spec/ports/0/port", "value": 9000}],
        "json",
    ),
    Edit(
        "Service selector",
        SERVICE,
        "spec.selector",
        {"spec": {"selector": {"app.kubernetes.io/instance": "nothing"}}},
    ),
    Edit("Service deleted", SERVICE, ""),
    Edit("ConfigMap value", SETTINGS, "data.level", {"data": {"level": "debug"}}),
    Edit("ConfigMap key removed", SETTINGS, "data", {"data": {"level": None}}),
    Edit("ConfigMap key added", SETTINGS, "data.more", {"data": {"more": "1"}}, undone=False),
    Edit("Secret value", KEY, "data", {"stringData": {"api-key": HIDDEN}}),
    Edit(
        "Secret key added",
        KEY,
        "data.spare",
        {"data": {"spare": base64.b64encode(HIDDEN.encode()).decode()}},
        undone=False,
    ),
    Edit(
        "NetworkPolicy rule removed",
        DNS,
        "spec.egress",
        [{"op": "remove", "path": "/spec/egress/0"}],
        "json",
    ),
    Edit(
        "NetworkPolicy port removed",
        DNS,
        "spec.egress[0].ports",
        [{"op": "remove", "path": "/spec/egress/0/ports/1"}],
        "json",
    ),
    Edit(
        "Ingress host",
        INGRESS,
        "spec.rules[0].host",
        [{"op": "replace", "path": "/spec/rules/0/host", "value": "other.test"}],
        "json",
    ),
    Edit(
        "Ingress class", INGRESS, "spec.ingressClassName", {"spec": {"ingressClassName": "other"}}
    ),
    Edit("disruption budget", BUDGET, "spec.maxUnavailable", {"spec": {"maxUnavailable": 2}}),
    Edit("scaler's bounds", SCALER, "spec.maxReplicas", {"spec": {"maxReplicas": 9}}),
    Edit(
        "scaler's metric",
        SCALER,
        "spec.metrics",
        [
            {
                "op": "replace",
                "path": "/spec/metrics/0/resource/target/averageUtilization",
                "value": 5,
            }
        ],
        "json",
    ),
    Edit(
        "ServiceAccount",
        ACCOUNT,
        "automountServiceAccountToken",
        {"automountServiceAccountToken": True},
    ),
    Edit(
        "RBAC rule",
        ROLE,
        "rules",
        [
            {
                "op": "add",
                "path": "/rules/-",
                "value": {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
            }
        ],
        "json",
    ),
    Edit("quota", QUOTA, "spec.hard", {"spec": {"hard": {"services.nodeports": "5"}}}),
    Edit(
        "namespace label",
        NAMESPACE,
        "metadata.labels",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
    ),
    Edit(
        "node label",
        NODE,
        "metadata.labels",
        {"metadata": {"labels": {"inferplan.dev/pool": "other"}}},
        manager="kubectl-label",
    ),
    Edit("node taint", NODE, "spec.taints", {"spec": {"taints": None}}, manager="kubectl-taint"),
    Edit(
        "Job suspended",
        JOB,
        "spec.suspend",
        {"spec": {"suspend": True}},
        manager="kubectl-patch",
        undone=False,
    ),
    Edit(
        "claim's label",
        CLAIM,
        "metadata.labels",
        {"metadata": {"labels": {_OURS: None}}},
        manager="kubectl-label",
    ),
    Edit(
        "volume's policy",
        VOLUME,
        "spec.persistentVolumeReclaimPolicy",
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
    ),
    Edit("RuntimeClass deleted", CLASS, ""),
)

SILENT = (
    Edit(
        "another label",
        MODEL,
        "",
        {"metadata": {"labels": {"team": "blue"}}},
        manager="kubectl-label",
    ),
    Edit(
        "another annotation",
        SERVICE,
        "",
        {"metadata": {"annotations": {"note": "x"}}},
        manager="kubectl-annotate",
    ),
    Edit(
        "a restart",
        MODEL,
        "",
        {
            "spec": {
                "template": {
                    "metadata": {
                        "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-22T02:00:00Z"}
                    }
                }
            }
        },
        manager="kubectl-rollout",
    ),
    Edit(
        "a cordoned node",
        OTHER_NODE,
        "",
        {"spec": {"unschedulable": True}},
        manager="kubectl-cordon",
    ),
    Edit(
        "a controller's taint",
        NODE,
        "",
        [
            {
                "op": "add",
                "path": "/spec/taints/-",
                "value": {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
            }
        ],
        "json",
        "kube-controller-manager",
    ),
    Edit(
        "a scaler at work",
        f"{GATEWAY}/scale",
        "",
        {"spec": {"replicas": 3}},
        manager="kube-controller-manager",
    ),
    Edit(
        "a scaled object scaled by hand",
        f"{GATEWAY}/scale",
        "",
        {"spec": {"replicas": 4}},
        manager="kubectl",
    ),
    Edit(
        "a controller's status",
        f"{SCALER}/status",
        "",
        {"status": {"desiredReplicas": 3}},
        manager="kube-controller-manager",
    ),
)
