"""Objects that people created in a stack's namespace: named, unless a controller or the stack owns
them.
"""

from __future__ import annotations

from inferplan.updating.drift.appeared import appeared
from inferplan.updating.drift.finding import Words, remedy
from inferplan.workspace.live import LiveCluster, ObjectKey

RIGHTS = "rbac.authorization.k8s.io/v1"
GROUPS = {
    "/apis/apps/v1": ["Deployment"],
    "/api/v1": ["Pod"],
    f"/apis/{RIGHTS}": ["RoleBinding", "ClusterRoleBinding"],
}


def made(name, *managers, **more):
    fields = [
        {"manager": each, "operation": "Update", "fieldsV1": {"f:spec": {}}} for each in managers
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": "models",
            "managedFields": fields,
            **more.pop("metadata", {}),
        },
        **more,
    }


def cluster(**lists):
    def get(path):
        if path == "/apis":
            return {
                "groups": [
                    {"versions": [{"groupVersion": each.removeprefix("/apis/")}]} for each in GROUPS
                ]
            }
        if path in GROUPS:
            return {
                "resources": [
                    {"name": each.lower(), "kind": each, "namespaced": not each.startswith("C")}
                    for each in GROUPS[path]
                ]
            }
        return {"items": lists.get(path.rpartition("/")[2], [])}

    return LiveCluster(get)


def test_workloads_and_bindings_of_people_are_named_with_the_command_that_removes_them():
    owned = made("web-1", "kubectl-create", metadata={"ownerReferences": [{"uid": "1"}]})
    granted = made(
        "admin",
        "kubectl-create",
        subjects=[{"kind": "ServiceAccount", "name": "x", "namespace": "models"}],
    )
    live = cluster(
        deployment=[
            made("miner", "kubectl-create"),
            made("declared", "kubectl-edit"),
            made("old", "inferplan-rehearsal", "kubectl-edit"),
        ],
        pod=[made("shell", "kubectl-run"), owned, made("daemon-1", "kube-controller-manager")],
        rolebinding=[made("everyone", "Mozilla")],
        clusterrolebinding=[
            granted,
            made("other", "kubectl-create", subjects=[{"kind": "Group", "name": "all"}]),
        ],
    )
    findings = list(
        appeared(live, "models", [ObjectKey("apps/v1", "Deployment", "models", "declared")])
    )
    names = [str(each.key) for each in findings]
    assert names == [
        "Deployment models/miner",
        "Pod models/shell",
        "RoleBinding models/everyone",
        "ClusterRoleBinding admin",
    ]
    words = Words(command="inferplan up prod", file="Pulumi.prod.yaml", kubectl="kubectl")
    assert findings[0].sentence() == "exists, and the stack does not declare it"
    assert (
        remedy(findings[0], words)
        == "inferplan up prod leaves it, because the stack does not declare it. Remove it with:"
        " kubectl delete deployment miner -n models"
    )
    assert remedy(findings[3], words).endswith("kubectl delete clusterrolebinding admin")
