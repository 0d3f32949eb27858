"""Each check of an existing cluster fires in a world that lacks one thing, and is silent in a world that has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from operations.doctor.cluster import ExaminedCluster, permission_aware
from operations.doctor.examination import CLUSTER_CHECKS
from operations.doctor.findings import run_checks
from operations.errors import OperationError
from operations.live import LiveCluster
from operations.workspace import Workspace, open_workspace
from rehearsal.engine.wire.recording import Recording

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
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **body}


def node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "159530m", "memory": "873367Mi", "hugepages-2Mi": "95000Mi", "habana.ai/gaudi": "8"}
    each = thing("v1", "Node", name, spec={"taints": [{"key": "habana.ai/gaudi", "value": "present", "effect": "NoSchedule"}]})
    each["metadata"]["labels"] = {"inferplan.dev/pool": "gaudi2", "intel.feature.node.kubernetes.io/gaudi": "true"}
    return each | {"status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}}


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
        thing("v1", "Secret", "minio", NAMESPACE, data={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}),
    ]


class World:
    """A cluster as an API server shows it: objects, kinds that it does not serve, and paths that the user may not read."""

    def __init__(self) -> None:
        self.objects = ready_cluster()
        self.unserved: set[str] = set()
        self.forbidden = ""
        self.denied: tuple[str, ...] = ()

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        return next(each for each in self.objects if each["kind"] == kind and each["metadata"]["name"].startswith(name))

    def remove(self, kind: str, name: str = "") -> None:
        self.objects.remove(self.one(kind, name))

    def get(self, path: str) -> dict[str, Any]:
        if self.forbidden and path.endswith(self.forbidden):
            user = f'User "anna" cannot list resource "{self.forbidden}" in API group "" at the cluster scope'
            raise OperationError(f"{self.forbidden} is forbidden: {user}")
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": each}]} for each in KINDS]}
        for api, kinds in KINDS.items():
            base = f"/apis/{api}" if "/" in api else f"/api/{api}"
            served = [kind for kind in [*kinds, *(["PersistentVolume*"] if api == "v1" else [])] if kind.rstrip("*") not in self.unserved]
            if path == base:
                return {"resources": [self._resource(kind) for kind in served]}
            for kind in (each.rstrip("*") for each in served):
                if path.startswith(f"{base}/") and path.endswith(f"/{plural(kind)}"):
                    namespace = path.split("/namespaces/")[1].split("/", maxsplit=1)[0] if "/namespaces/" in path else ""
                    return {"items": [each for each in self.objects if each["kind"] == kind and self._inside(each, namespace)]}
        raise AssertionError(path)

    @staticmethod
    def _resource(kind: str) -> dict[str, Any]:
        name = kind.rstrip("*")
        return {"kind": name, "name": plural(name), "namespaced": not kind.endswith("*") and name != "Namespace"}

    @staticmethod
    def _inside(each: dict[str, Any], namespace: str) -> bool:
        return not namespace or each["metadata"]["namespace"] == namespace


@cache
def planned(stack: str = "onprem") -> tuple[Workspace, Recording]:
    workspace = open_workspace(stack)
    return workspace, workspace.record()


@pytest.fixture(autouse=True)
def passphrase(monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")


@pytest.fixture
def examine(monkeypatch) -> Callable[..., list[tuple[str, str, str, str]]]:
    def run(world: World, *names: str) -> list[tuple[str, str, str, str]]:
        def rights(objects, _live, _context):
            from operations.preflight import LackingRight

            del objects
            return [LackingRight(namespace=NAMESPACE, resource=each, verbs=("create", "patch")) for each in world.denied]

        monkeypatch.setattr("operations.doctor.objects.lacking_rights", rights)
        workspace, recording = planned()
        live = LiveCluster(permission_aware(world.get, "kubectl --context onprem"))
        cluster = ExaminedCluster(workspace.settings, recording, live, "onprem", "onprem")
        checks = {name: CLUSTER_CHECKS[name] for name in names or CLUSTER_CHECKS}
        return [(each.check, each.severity.value, each.message, each.remedy) for each in run_checks(checks, cluster)]

    return run


def test_a_cluster_that_has_everything_gets_no_error_and_every_check_says_so(examine):
    findings = examine(World())
    assert {check for check, _, _, _ in findings} == set(CLUSTER_CHECKS)
    # Only a node can prove that an NFS export can be mounted.
    assert [(check, severity) for check, severity, _, _ in findings if severity != "ok"] == [("storage", "unknown")]


def allocatable(name: str, quantity: str) -> Callable[[World], None]:
    return lambda world: world.one("Node", "a")["status"]["allocatable"].update({name: quantity})


def quota(hard: str, used: str = "0") -> Callable[[World], None]:
    body = {"spec": {"hard": {"requests.habana.ai/gaudi": hard}}, "status": {"used": {"requests.habana.ai/gaudi": used}}}
    return lambda world: world.objects.append(thing("v1", "ResourceQuota", "team", NAMESPACE, **body))


def limit_range(most: str) -> Callable[[World], None]:
    body = {"spec": {"limits": [{"type": "Container", "max": {"memory": most}}]}}
    return lambda world: world.objects.append(thing("v1", "LimitRange", "team", NAMESPACE, **body))


def network(name: str, *args: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        each = world.one("DaemonSet")
        each["metadata"]["name"] = name
        each["spec"] = {"template": {"spec": {"containers": [{"args": list(args)}]}}}

    return change


def taint(effect: str) -> Callable[[World], None]:
    return lambda world: world.one("Node")["spec"]["taints"].append({"key": "team", "value": "vision", "effect": effect})


BROKEN = [
    ("operators", lambda w: w.unserved.add("Ingress"), "error", "does not serve Ingress of networking.k8s.io/v1", "install the operator"),
    ("node labels", lambda w: w.one("Node", "b")["metadata"]["labels"].pop("inferplan.dev/pool"), "error", "1 of 2 nodes have the label", "kubectl --context onprem label node b inferplan.dev/pool=gaudi2"),
    ("node labels", lambda w: w.one("Node", "b")["spec"].update(unschedulable=True), "error", "node b is cordoned", "uncordon b"),
    ("node labels", lambda w: w.one("Node", "b")["status"].update(conditions=[]), "error", "node b is not Ready", "describe node b"),
    ("node taints", taint("NoSchedule"), "error", "do not tolerate the taint team=vision:NoSchedule of a", "taints: ["),
    ("devices", allocatable("habana.ai/gaudi", "0"), "error", "node a offers 0 of 8 habana.ai/gaudi; its device plugin does not run", "habana-k8s-device-plugin.yaml"),
    ("devices", allocatable("habana.ai/gaudi", "7"), "error", "node a offers 7 of 8 habana.ai/gaudi; look for a failed device", "describe node a"),
    ("node sizes", allocatable("hugepages-2Mi", "0"), "error", "requests 47200Mi of hugepages-2Mi, and a offers 0", "vm.nr_hugepages=47500"),
    ("node sizes", allocatable("memory", "500Gi"), "warning", "a offers 159530m CPU and 500Gi of memory", "machine: {cpu: '159530m', memory: 500Gi, accelerators: 8, hugepages2Mi: 95000Mi}"),
    ("runtime classes", lambda w: w.remove("RuntimeClass"), "error", "RuntimeClass habana, which does not exist", '"handler":"habana"'),
    ("ingress", lambda w: w.one("IngressClass")["metadata"].update(name="haproxy"), "error", "IngressClass nginx, which does not exist; the cluster has haproxy", "upgrade --install ingress-nginx"),
    ("network policies", network("kube-flannel-ds"), "warning", "Flannel does not enforce NetworkPolicies", "Canal"),
    ("network policies", network("aws-node"), "warning", "enableNetworkPolicy is off", "--addon-name vpc-cni"),
    ("network policies", network("fabric"), "unknown", "not provable from here", "docs/doctor.md"),
    ("secrets", lambda w: w.remove("Secret", "minio"), "error", "Secret minio, which does not exist", "kubectl --context onprem -n inference create secret generic minio --from-file=AWS_ACCESS_KEY_ID=FILE"),
    ("secrets", lambda w: w.one("Secret", "minio").update(data={"AWS_ACCESS_KEY_ID": "c2VjcmV0"}), "error", "Secret minio has no key AWS_SECRET_ACCESS_KEY", "delete secret minio &&"),
    ("quotas", quota("4"), "error", "allows 4 requests.habana.ai/gaudi, 4 are free, and the stack needs 12", '"requests.habana.ai/gaudi":"12"'),
    ("quotas", quota("16", used="8"), "warning", "8 are free, and the stack needs 12", "patch resourcequota team"),
    ("quotas", limit_range("100Gi"), "error", "a container may have 100Gi memory, and one of Deployment llama-3-70b has 383Gi", "edit limitrange team"),
    ("rights", lambda w: setattr(w, "denied", ("deployments.apps",)), "error", "create, patch deployments.apps in namespace inference", "--verb=create,patch --resource=deployments.apps"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "change", "severity", "message", "remedy"), BROKEN, ids=[f"{row[0]}: {row[3][:40]}" for row in BROKEN])
def test_a_check_names_what_is_missing_and_the_command_that_adds_it(examine, check, change, severity, message, remedy):
    world = World()
    change(world)
    [finding] = [each for each in examine(world, check) if each[1] != "ok"]
    assert finding[:2] == (check, severity)
    assert message in finding[2]
    assert remedy in finding[3]


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("node taints", taint("PreferNoSchedule")),
        ("network policies", network("cilium")),
        ("network policies", network("aws-node", "--enable-network-policy=true")),
        ("quotas", quota("12")),
        ("quotas", limit_range("400Gi")),
        ("node sizes", allocatable("memory", "860Gi")),
    ],
)
def test_a_check_is_silent_where_the_difference_does_not_matter(examine, check, change):
    world = World()
    change(world)
    assert {severity for _, severity, _, _ in examine(world, check)} == {"ok"}


def test_a_forbidden_question_names_the_permission_and_the_other_checks_go_on(examine):
    world = World()
    world.forbidden = "nodes"
    findings = examine(world)
    [labels] = [each for each in findings if each[0] == "node labels"]
    assert labels[1:3] == ("unknown", "could not ask: user 'anna' may not list nodes; needs permission list nodes")
    assert "create clusterrole inferplan-doctor-nodes --verb=get,list --resource=nodes" in labels[3]
    assert [severity for check, severity, _, _ in findings if check == "secrets"] == ["ok", "ok"]


def test_a_defect_in_one_check_hides_no_other(examine):
    world = World()
    world.one("Node")["status"]["allocatable"]["memory"] = {"not": "a quantity"}
    findings = examine(world)
    assert any(check == "node sizes" and severity == "unknown" and "defect" in text for check, severity, text, _ in findings)
    assert any(check == "ingress" and severity == "ok" for check, severity, _, _ in findings)


def test_the_findings_before_a_question_that_fails_are_kept(examine):
    world = World()
    world.one("Node", "b")["status"]["allocatable"]["memory"] = {"not": "a quantity"}
    assert [severity for _, severity, _, _ in examine(world, "node sizes")] == ["ok", "unknown"]


def test_before_the_first_update_missing_secrets_are_warnings_because_the_stack_creates_their_namespace(examine):
    world = World()
    world.remove("Namespace")
    findings = examine(world, "secrets")
    assert [severity for _, severity, _, _ in findings] == ["warning", "warning"]
    assert all("the namespace does not exist yet" in message for _, _, message, _ in findings)


def test_no_value_of_a_secret_is_shown(examine):
    world = World()
    world.one("Secret", "minio").update(data={"AWS_ACCESS_KEY_ID": "Y2FuYXJ5"})
    assert "Y2FuYXJ5" not in str(examine(world))


def declared(kind: str, api: str, spec: dict[str, Any]) -> Any:
    inputs = {"apiVersion": api, "kind": kind, "metadata": {"name": "chat", "namespace": NAMESPACE}, "spec": spec}
    return SimpleNamespace(custom=True, read=False, type=f"kubernetes:{api}:{kind}", inputs=inputs, name="chat", urn="chat")


def keda(address: str) -> Any:
    return declared("ScaledObject", "keda.sh/v1alpha1", {"triggers": [{"type": "prometheus", "metadata": {"serverAddress": address}}]})


@pytest.mark.parametrize(
    ("scaler", "objects", "metrics", "severity", "message"),
    [
        (declared("HorizontalPodAutoscaler", "autoscaling/v2", {}), [], False, "error", "does not serve metrics.k8s.io/v1beta1"),
        (declared("HorizontalPodAutoscaler", "autoscaling/v2", {}), [], True, "ok", "serves metrics.k8s.io/v1beta1"),
        (keda("http://prometheus.monitoring.svc:9090"), [], False, "error", "there is no Service monitoring/prometheus"),
        (keda("http://prometheus.monitoring.svc:9090"), [thing("v1", "Service", "prometheus", "monitoring")], False, "ok", "exists"),
        (
            keda("https://metrics.acme.example"),
            [],
            False,
            "unknown",
            "not provable from here: that KEDA reaches https://metrics.acme.example",
        ),
        (declared("Deployment", "apps/v1", {}), [], False, "ok", "no model of the stack is scaled"),
    ],
)
def test_a_scaler_needs_its_metrics(monkeypatch, scaler, objects, metrics, severity, message):
    world = World()
    world.objects += objects
    if metrics:
        monkeypatch.setitem(KINDS, "metrics.k8s.io/v1beta1", ["PodMetrics"])
    recording: Any = [scaler]
    cluster = ExaminedCluster(planned()[0].settings, recording, LiveCluster(world.get), "onprem", "onprem")
    [finding] = run_checks({"scaling": CLUSTER_CHECKS["scaling"]}, cluster)
    assert (finding.severity.value, message in finding.message) == (severity, True)
