"""A cluster for tests, as an API server shows it: what the stack `onprem` expects, unless a test
changes it.
"""

from __future__ import annotations

from typing import Any

from inferplan.errors import OperationError

NAMESPACE = "inference"
KINDS = {
    "v1": [
        "Namespace",
        "Node*",
        "Secret",
        "ConfigMap",
        "Service",
        "ServiceAccount",
        "ResourceQuota",
        "LimitRange",
        "PersistentVolumeClaim",
    ],
    "apps/v1": ["Deployment", "DaemonSet"],
    "batch/v1": ["Job"],
    "policy/v1": ["PodDisruptionBudget"],
    "networking.k8s.io/v1": ["Ingress", "NetworkPolicy", "IngressClass*"],
    "node.k8s.io/v1": ["RuntimeClass*"],
    "storage.k8s.io/v1": ["StorageClass*", "CSIDriver*"],
}
CLUSTER_SCOPED = {"Namespace", "PersistentVolume"}


def plural(kind: str) -> str:
    return f"{kind.lower()}es" if kind.endswith(("s", "y")) else f"{kind.lower()}s"


def thing(api: str, kind: str, name: str, namespace: str = "", **body: Any) -> dict[str, Any]:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        **body,
    }


def node(name: str) -> dict[str, Any]:
    allocatable = {
        "cpu": "159530m",
        "memory": "873367Mi",
        "hugepages-2Mi": "95000Mi",
        "habana.ai/gaudi": "8",
    }
    each = thing(
        "v1",
        "Node",
        name,
        spec={"taints": [{"key": "habana.ai/gaudi", "value": "present", "effect": "NoSchedule"}]},
    )
    each["metadata"]["labels"] = {
        "inferplan.dev/pool": "gaudi2",
        "intel.feature.node.kubernetes.io/gaudi": "true",
        "habana.ai/driver.version": "1.24.1-6",
    }
    return each | {
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    }


def ready_cluster() -> list[dict[str, Any]]:
    """Everything that the stack `onprem` expects."""
    return [
        thing("v1", "Namespace", NAMESPACE),
        node("a"),
        node("b"),
        thing("apps/v1", "DaemonSet", "calico-node", "kube-system"),
        thing("networking.k8s.io/v1", "IngressClass", "nginx"),
        thing("node.k8s.io/v1", "RuntimeClass", "habana", handler="habana"),
        thing("v1", "Secret", "llm-tls", NAMESPACE, data={"tls.crt": "", "tls.key": ""}),
        thing(
            "v1",
            "Secret",
            "minio",
            NAMESPACE,
            data={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        ),
    ]


class World:
    """A cluster as an API server shows it: objects, kinds that it does not serve, and paths that
    the user may not read.
    """

    def __init__(self) -> None:
        self.objects = ready_cluster()
        self.unserved: set[str] = set()
        self.forbidden = ""
        self.denied: tuple[str, ...] = ()

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        return next(
            each
            for each in self.objects
            if each["kind"] == kind and each["metadata"]["name"].startswith(name)
        )

    def remove(self, kind: str, name: str = "") -> None:
        self.objects.remove(self.one(kind, name))

    def get(self, path: str) -> dict[str, Any]:
        if self.forbidden and path.endswith(self.forbidden):
            user = (
                f'User "anna" cannot list resource "{self.forbidden}" in API group "" at the'
                " cluster scope"
            )
            raise OperationError(f"{self.forbidden} is forbidden: {user}")
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": each}]} for each in KINDS]}
        for api, kinds in KINDS.items():
            base = f"/apis/{api}" if "/" in api else f"/api/{api}"
            served = [
                kind
                for kind in [*kinds, *(["PersistentVolume*"] if api == "v1" else [])]
                if kind.rstrip("*") not in self.unserved
            ]
            if path == base:
                return {"resources": [self._resource(kind) for kind in served]}
            for kind in (each.rstrip("*") for each in served):
                if path.startswith(f"{base}/") and path.endswith(f"/{plural(kind)}"):
                    namespace = (
                        path.split("/namespaces/")[1].split("/", maxsplit=1)[0]
                        if "/namespaces/" in path
                        else ""
                    )
                    return {
                        "items": [
                            each
                            for each in self.objects
                            if each["kind"] == kind and self._inside(each, namespace)
                        ]
                    }
        raise AssertionError(path)

    @staticmethod
    def _resource(kind: str) -> dict[str, Any]:
        name = kind.rstrip("*")
        return {
            "kind": name,
            "name": plural(name),
            "namespaced": not kind.endswith("*") and name != "Namespace",
        }

    @staticmethod
    def _inside(each: dict[str, Any], namespace: str) -> bool:
        return not namespace or each["metadata"]["namespace"] == namespace
