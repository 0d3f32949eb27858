"""Each check of an existing cluster fires in a world that lacks one thing, and is silent in a world
that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from inferplan.commands.doctor import nodes
from inferplan.commands.doctor.cluster import ExaminedCluster, permission_aware
from inferplan.commands.doctor.examination import CLUSTER_CHECKS
from inferplan.commands.doctor.findings import run_checks
from inferplan.pulumi_engine.recording import Recording
from inferplan.workspace.live import LiveCluster
from inferplan.workspace.workspace import Workspace, open_workspace
from tests.unit.doctor.cluster_world import NAMESPACE, World, thing


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
            from inferplan.updating.preflight import LackingRight

            del objects
            return [
                LackingRight(namespace=NAMESPACE, resource=each, verbs=("create", "patch"))
                for each in world.denied
            ]

        monkeypatch.setattr("inferplan.commands.doctor.objects.lacking_rights", rights)
        workspace, recording = planned()
        live = LiveCluster(permission_aware(world.get, "kubectl --context onprem"))
        cluster = ExaminedCluster(workspace.settings, recording, live, "onprem", "onprem")
        checks = {name: CLUSTER_CHECKS[name] for name in names or CLUSTER_CHECKS}
        return [
            (each.check, each.severity.value, each.message, each.remedy)
            for each in run_checks(checks, cluster)
        ]

    return run


def test_a_cluster_that_has_everything_gets_no_error_and_every_check_says_so(examine):
    findings = examine(World())
    assert {check for check, _, _, _ in findings} == set(CLUSTER_CHECKS)
    # Only a node can prove that an NFS export can be mounted.
    assert [(check, severity) for check, severity, _, _ in findings if severity != "ok"] == [
        ("storage", "unknown")
    ]


def allocatable(name: str, quantity: str) -> Callable[[World], None]:
    return lambda world: world.one("Node", "a")["status"]["allocatable"].update({name: quantity})


def quota(hard: str, used: str = "0") -> Callable[[World], None]:
    body = {
        "spec": {"hard": {"requests.habana.ai/gaudi": hard}},
        "status": {"used": {"requests.habana.ai/gaudi": used}},
    }
    return lambda world: world.objects.append(
        thing("v1", "ResourceQuota", "team", NAMESPACE, **body)
    )


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
    return lambda world: world.one("Node")["spec"]["taints"].append(
        {"key": "team", "value": "vision", "effect": effect}
    )


def label(name: str, value: str) -> Callable[[World], None]:
    return lambda world: world.one("Node")["metadata"]["labels"].update({name: value})


BROKEN = [
    ("operators", lambda w: w.unserved.add("Ingress"), "error", "does not serve Ingress of networking.k8s.io/v1", "install the operator"),
    ("node labels", lambda w: w.one("Node", "b")["metadata"]["labels"].pop("inferplan.dev/pool"), "error", "1 of 2 nodes have the label", "kubectl --context onprem label node b inferplan.dev/pool=gaudi2"),
    ("node labels", lambda w: w.one("Node", "b")["spec"].update(unschedulable=True), "error", "node b is cordoned", "uncordon b"),
    ("node labels", lambda w: w.one("Node", "b")["status"].update(conditions=[]), "error", "node b is not Ready", "describe node b"),
    ("node taints", taint("NoSchedule"), "error", "do not tolerate the taint team=vision:NoSchedule of a", "taints: ["),
    ("devices", allocatable("habana.ai/gaudi", "0"), "error", "node a offers 0 of 8 habana.ai/gaudi; its device plugin is not running", "habana-k8s-device-plugin.yaml"),
    ("devices", allocatable("habana.ai/gaudi", "7"), "error", "node a offers 7 of 8 habana.ai/gaudi; look for a failed device", "describe node a"),
    ("drivers", label("habana.ai/driver.version", "1.23.0-695"), "error", "needs driver 1.24, and these nodes have an older one: a 1.23.0-695", "update the driver of these nodes to 1.24 or later"),
    ("drivers", label("habana.ai/driver.version", ""), "unknown", "a has no label with the driver's version (habana.ai/driver.version)", ""),
    ("node sizes", allocatable("hugepages-2Mi", "0"), "error", "requests 47200Mi of hugepages-2Mi, and a offers 0", "vm.nr_hugepages=47500"),
    ("node sizes", allocatable("memory", "500Gi"), "warning", "a offers 159530m CPU and 500Gi of memory", "instanceType: {cpu: '159530m', memory: 500Gi, accelerators: 8, hugepages2Mi: 95000Mi}"),
    ("runtime classes", lambda w: w.remove("RuntimeClass"), "error", "RuntimeClass habana, which does not exist", '"handler":"habana"'),
    ("ingress", lambda w: w.one("IngressClass")["metadata"].update(name="haproxy"), "error", "IngressClass nginx, which does not exist; the cluster has haproxy", "upgrade --install ingress-nginx"),
    ("network policies", network("kube-flannel-ds"), "warning", "Flannel does not enforce NetworkPolicies", "Canal"),
    ("network policies", network("aws-node"), "warning", "enableNetworkPolicy is off", "--addon-name vpc-cni"),
    ("network policies", network("fabric"), "unknown", "not provable from here", "inferplan docs doctor"),
    ("secrets", lambda w: w.remove("Secret", "minio"), "error", "Secret minio, which does not exist", "kubectl --context onprem -n inference create secret generic minio --from-file=AWS_ACCESS_KEY_ID=FILE"),
    ("secrets", lambda w: w.one("Secret", "minio").update(data={"AWS_ACCESS_KEY_ID": "c2VjcmV0"}), "error", "Secret minio has no key AWS_SECRET_ACCESS_KEY", "--from-file=AWS_SECRET_ACCESS_KEY=FILE --dry-run=client -o json | kubectl --context onprem -n inference patch secret minio --patch-file=/dev/stdin"),
    ("quotas", quota("4"), "error", "allows 4 requests.habana.ai/gaudi, 4 are free, and the stack needs 12", '"requests.habana.ai/gaudi":"12"'),
    ("quotas", quota("16", used="8"), "warning", "8 are free, and the stack needs 12", "patch resourcequota team"),
    ("quotas", limit_range("100Gi"), "error", "a container may have 100Gi memory, and one of Deployment llama-3-70b has 383Gi", """patch limitrange team --type=json -p '[{"op": "replace", "path": "/spec/limits/0/max/memory", "value": "383Gi"}]'"""),
    ("rights", lambda w: setattr(w, "denied", ("deployments.apps",)), "error", "create, patch deployments.apps in namespace inference", "--verb=create,patch --resource=deployments.apps"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "change", "severity", "message", "remedy"),
    BROKEN,
    ids=[f"{row[0]}: {row[3][:40]}" for row in BROKEN],
)
def test_a_check_names_what_is_missing_and_the_command_that_adds_it(
    examine, check, change, severity, message, remedy
):
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
    assert labels[1:3] == (
        "unknown",
        "not checked, because user 'anna' may not list nodes; needs permission list nodes",
    )
    assert "create clusterrole inferplan-doctor-nodes --verb=get,list --resource=nodes" in labels[3]
    assert [severity for check, severity, _, _ in findings if check == "secrets"] == ["ok", "ok"]


def test_a_defect_in_one_check_hides_no_other(examine):
    world = World()
    world.one("Node")["status"]["allocatable"]["memory"] = {"not": "a quantity"}
    findings = examine(world)
    assert any(
        check == "node sizes" and severity == "unknown" and "defect" in text
        for check, severity, text, _ in findings
    )
    assert any(check == "ingress" and severity == "ok" for check, severity, _, _ in findings)


def test_the_findings_before_a_question_that_fails_are_kept(examine):
    world = World()
    world.one("Node", "b")["status"]["allocatable"]["memory"] = {"not": "a quantity"}
    assert [severity for _, severity, _, _ in examine(world, "node sizes")] == ["ok", "unknown"]


def test_before_the_first_update_missing_secrets_are_warnings_because_the_stack_creates_their_namespace(
    examine,
):
    world = World()
    world.remove("Namespace")
    findings = examine(world, "secrets")
    assert [severity for _, severity, _, _ in findings] == ["warning", "warning"]
    assert all("the namespace does not exist yet" in message for _, _, message, _ in findings)


def test_no_value_of_a_secret_is_shown(examine):
    world = World()
    world.one("Secret", "minio").update(data={"AWS_ACCESS_KEY_ID": "Y2FuYXJ5"})
    assert "Y2FuYXJ5" not in str(examine(world))


def test_every_check_has_a_world_in_which_it_fires():
    elsewhere = {"storage", "scaling", "node room"}  # test_storage_and_scaling.py, and below
    assert {row[0] for row in BROKEN} == set(CLUSTER_CHECKS) - elsewhere


@pytest.mark.parametrize(("models", "severity"), [(100_000, "ok"), (400_000, "warning")])
def test_the_sum_on_shared_nodes_is_stated_with_its_parts(examine, monkeypatch, models, severity):
    rows = {"models": {"cpu": models, "memory": 0}, "a preheat": {"cpu": 2000, "memory": 0}}
    monkeypatch.setattr(nodes, "shared_nodes", lambda each: (next(iter(each.node_pools)), {}, rows))
    world = World()
    for each in world.objects:
        if each["kind"] == "Node":
            each["spec"].setdefault("taints", [{"key": "a", "effect": "NoSchedule"}])
    [(_, told, text, _)] = examine(world, "node room")
    assert told == severity
    assert "a preheat 2" in text
