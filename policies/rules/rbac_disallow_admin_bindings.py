"""No binding makes its subjects administrators or names unknown subjects."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

ADMINISTRATORS = ("cluster-admin",)
# What is narrow in one namespace reads every Secret where it is bound to the whole cluster.
OF_ONE_NAMESPACE = ("admin", "edit")
CONFIG_MAP = "kubernetes:core:ConfigMap"
EVERYBODY = ("system:anonymous", "system:unauthenticated", "system:authenticated", "system:serviceaccounts", "system:masters")


def _check(binding: Resource, _: Parameters) -> Findings:
    if binding.kind == CONFIG_MAP:
        if binding.at("metadata", "name").text() == "aws-auth":
            yield from (
                found(each, "makes AWS principals administrators")
                for _name, each in binding.at("data").entries()
                if "system:masters" in each.text()
            )
        return
    role = binding.at("roleRef", "name")
    if role.text() in ADMINISTRATORS:
        yield found(role, "makes its subjects administrators")
    if role.text() in OF_ONE_NAMESPACE and binding.short_kind == "ClusterRoleBinding":
        yield found(role, "gives namespace administrator rights in every namespace")
    accounts = [each for each in binding.at("subjects").each() if each.at("kind").text() == "ServiceAccount"]
    if role.text() in OF_ONE_NAMESPACE and binding.short_kind == "RoleBinding" and accounts:
        yield found(role, "lets a pod read every Secret of the namespace")
    for account in accounts:
        if account.at("name").text() == "default":
            yield found(account.at("name"), "gives the role to every pod without its own service account")
    for subject in binding.at("subjects").each():
        if subject.at("kind").text() != "ServiceAccount" and (
            subject.at("name").text() in EVERYBODY or subject.at("name").text().startswith("system:serviceaccounts:")
        ):
            yield found(subject.at("name"), "gives the role to every user")


RULE = Rule(
    id="rbac-disallow-admin-bindings",
    title="No binding makes its subjects administrators or names unknown subjects",
    severity=Severity.CRITICAL,
    refs=(
        "CIS EKS 4.1.1",
        "NSA-CISA: RBAC",
    ),
    why="Anyone who takes over a pod with administrator rights controls the cluster, with every key and model in it",
    remedy="bind a Role with only the required verbs and resources to the one ServiceAccount that needs it",
    subject=objects(
        "kubernetes:rbac.authorization.k8s.io:RoleBinding", "kubernetes:rbac.authorization.k8s.io:ClusterRoleBinding", CONFIG_MAP
    ),
    check=_check,
)
