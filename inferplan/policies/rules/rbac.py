"""Kubernetes roles, bindings and admission webhooks."""

from collections.abc import Collection, Iterator

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.networks import is_narrow
from inferplan.tables import table

_API = "kubernetes:rbac.authorization.k8s.io"
CLUSTER_ROLE = f"{_API}:ClusterRole"
ROLES = objects(f"{_API}:Role", CLUSTER_ROLE)
_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
_WRITE = ("create", "update", "patch")
_WRITE_AND_DELETE = (*_WRITE, "delete", "deletecollection")
# Roles that may be bound in one namespace, but read every Secret if they are bound in the whole
# cluster.
OF_ONE_NAMESPACE = ("admin", "edit")
CONFIG_MAP = "kubernetes:core:ConfigMap"
BROAD_SUBJECTS = (
    "system:anonymous",
    "system:unauthenticated",
    "system:authenticated",
    "system:serviceaccounts",
    "system:masters",
)
# Groups, users and roles of Kubernetes itself begin so. These roles only discover the API or check
# tokens.
SYSTEM = "system:"
HARMLESS_ROLES = (
    *(
        "system:auth-delegator",
        "system:basic-user",
        "system:discovery",
        "system:public-info-viewer",
        "system:monitoring",
    ),
    "system:service-account-issuer-discovery",
)
VERBS = ("escalate", "bind", "impersonate")
_DRAINS = (("nodes", "update"), ("pods/eviction", "create"))
POD_ACCESS = (
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/proxy",
    "services/proxy",
    "nodes/proxy",
)
EPHEMERAL_CONTAINERS = ("pods/ephemeralcontainers",)
WEBHOOKS = objects(
    "kubernetes:admissionregistration.k8s.io:MutatingWebhookConfiguration",
    "kubernetes:admissionregistration.k8s.io:ValidatingWebhookConfiguration",
)
SECRETS = ("secrets", "secrets/*", "serviceaccounts/token")


def _power_violations(role: Resource, autoscalers: Collection[str]) -> Violations:
    """Fields of a role with a resource of `powers.toml`. Rights on named objects are allowed, and
    of `autoscalers` to drain nodes.
    """
    for rule in role.at("rules").each():
        groups, verbs = set(rule.at("apiGroups").texts()) or {""}, set(rule.at("verbs").texts())
        if rule.at("resourceNames").texts() and "create" not in verbs:
            continue
        written = verbs & set(_WRITE_AND_DELETE)
        for field in rule.at("resources").each():
            if role.object_name in autoscalers and (field.text(), *written) in _DRAINS:
                continue
            for power in table("policies/rules/powers.toml")["power"]:
                named = field.text() in power["resources"] and not groups.isdisjoint(
                    (power["group"], "*")
                )
                if named and not verbs.isdisjoint(power["verbs"]):
                    yield violation(field, power["problem"])


def grants(
    role: Resource, verbs: Collection[str], resources: Collection[str], *, named: bool = True
) -> Iterator[Field]:
    """Each field with one of `resources` in a rule with one of `verbs`, also for `named` objects,
    wildcards aside. Raises FieldError.
    """
    for rule in role.at("rules").each():
        fields = [each for each in rule.at("resources").each() if each.text() in resources]
        if (
            fields
            and not set(rule.at("verbs").texts()).isdisjoint(verbs)
            and (named or not rule.at("resourceNames").texts())
        ):
            yield from fields


@resource_rule(objects(f"{_API}:RoleBinding", f"{_API}:ClusterRoleBinding", CONFIG_MAP))
def rbac_disallow_admin_bindings(binding: Resource, parameters: Parameters) -> Violations:
    if binding.kind == CONFIG_MAP:
        # EKS maps principals of AWS to groups of Kubernetes in aws-auth.
        entries = binding.at("data").entries() if binding.object_name == "aws-auth" else ()
        yield from violations(
            (each for _, each in entries),
            lambda each: "system:masters" in each.text(),
            "makes AWS principals administrators",
        )
        return
    role = binding.at("roleRef", "name")
    yield from violations(
        role, lambda field: field.text() == "cluster-admin", "makes its subjects administrators"
    )
    is_component = role.text().startswith(SYSTEM) and role.text() not in HARMLESS_ROLES
    yield from violations(
        role, lambda _: is_component, "gives its subjects the rights of a component of Kubernetes"
    )
    if role.text() in OF_ONE_NAMESPACE and binding.short_kind == "ClusterRoleBinding":
        yield violation(role, "gives namespace administrator rights in every namespace")
    accounts = [
        each for each in binding.at("subjects").each() if each.at("kind").text() == "ServiceAccount"
    ]
    if role.text() in OF_ONE_NAMESPACE and binding.short_kind == "RoleBinding" and accounts:
        yield violation(role, "lets a pod read every Secret of the namespace")
    if role.text() in parameters["autoscalers"]:
        for subject in binding.at("subjects").each():
            if (subject.at("kind").text(), subject.at("name").text()) != (
                "ServiceAccount",
                role.text(),
            ):
                yield violation(subject.at("name"), "gets the rights of a node autoscaler")
    names = (account.at("name") for account in accounts)
    yield from violations(
        names,
        lambda name: name.text() == "default",
        "gives the role to every pod without its own service account",
    )
    for name in (
        each.at("name")
        for each in binding.at("subjects").each()
        if each.at("kind").text() != "ServiceAccount"
    ):
        if name.text() in BROAD_SUBJECTS or name.text().startswith("system:serviceaccounts:"):
            yield violation(name, "gives the role to every user")
        elif _is_component(name.text()):
            yield violation(name, "gives the role to a component of Kubernetes")


def _is_component(name: str) -> bool:
    """True for users and groups of Kubernetes itself. A single service account is also a user."""
    return name.startswith(SYSTEM) and not name.startswith(f"{SYSTEM}serviceaccount:")


@resource_rule(ROLES)
def rbac_disallow_escalation(role: Resource, parameters: Parameters) -> Violations:
    verbs = role.select("rules", "*", "verbs", "*")
    yield from violations(
        verbs, lambda verb: verb.text() in VERBS, "lets its subjects escalate their privileges"
    )
    yield from _power_violations(role, parameters["autoscalers"])
    name = role.at("metadata", "name")
    yield from violations(
        name,
        lambda each: each.text().startswith(SYSTEM),
        "is the name of a role of Kubernetes itself",
    )
    selectors = role.at("aggregationRule", "clusterRoleSelectors").each()
    yield from violations(
        selectors,
        lambda each: not is_narrow(each),
        "aggregates the permissions of every cluster role",
    )


@resource_rule(ROLES)
def rbac_disallow_exec(role: Resource, _: Parameters) -> Violations:
    # The right to get is enough: a web socket to the kubelet's proxy begins with a GET (CIS
    # Kubernetes 5.1.10).
    yield from (
        violation(field, "gives access to running pods")
        for field in grants(role, ("create", "get"), POD_ACCESS)
    )
    containers = grants(role, ("update", "patch"), EPHEMERAL_CONTAINERS)
    yield from (violation(field, "can add containers to running pods") for field in containers)


@resource_rule(ROLES)
def rbac_disallow_secret_reading(role: Resource, _: Parameters) -> Violations:
    problem = (
        "reads the Secrets of every namespace"
        if role.kind == CLUSTER_ROLE
        else "reads every Secret of the namespace"
    )
    yield from (
        violation(field, problem)
        for field in grants(role, ("get", "list", "watch"), ("secrets",), named=False)
    )


@resource_rule(objects(*ROLES.kinds, "kubernetes:core:Secret"))
def rbac_disallow_token_creation(role: Resource, _: Parameters) -> Violations:
    if role.short_kind == "Secret":
        type_ = "kubernetes.io/service-account-token"
        yield from violations(
            role.at("type"),
            lambda field: field.text() == type_,
            "is a service account token that never expires",
        )
        return
    tokens = grants(role, ("create",), ("serviceaccounts/token",), named=False)
    yield from (violation(field, "can create tokens of every service account") for field in tokens)


@resource_rule(ROLES)
def rbac_disallow_wildcards(role: Resource, _: Parameters) -> Violations:
    parts = ("verbs", "resources", "apiGroups", "nonResourceURLs")
    fields = (
        field
        for rule in role.at("rules").each()
        for part in parts
        for field in rule.at(part).each()
    )
    yield from violations(fields, lambda field: "*" in field.text(), "is a wildcard")


@resource_rule(WEBHOOKS)
def webhook_restrict_scope(configuration: Resource, _: Parameters) -> Violations:
    for webhook in configuration.at("webhooks").each():
        if (
            webhook.at("clientConfig", "service").absent
            or not webhook.at("clientConfig", "url").absent
        ):
            yield violation(webhook.at("clientConfig", "url"), "calls a server outside the cluster")
        for field in webhook.select("rules", "*", "resources", "*"):
            if field.text() in ("*", "*/*"):
                yield violation(field, "reads every object, including Secrets")
            elif field.text() in SECRETS:
                yield violation(field, "reads Secrets")
