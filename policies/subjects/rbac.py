"""Rules of RBAC roles: which verbs on which resources they give. It follows no binding, and expands no built-in role."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource
from policies.subjects.objects import objects

_API = "kubernetes:rbac.authorization.k8s.io"
CLUSTER_ROLE = f"{_API}:ClusterRole"
ROLES = objects(f"{_API}:Role", CLUSTER_ROLE)
"""Roles of a namespace and of the cluster, each as one part."""


# What lets its holder take rights that it was not given: the API group, resources, verbs, and what they come to.
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
POWERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        "",
        ("pods", "podtemplates", "replicationcontrollers"),
        ("create", "update", "patch"),
        "can run pods with any service account of the namespace",
    ),
    (
        "apps",
        ("deployments", "statefulsets", "daemonsets", "replicasets"),
        ("create", "update", "patch"),
        "can run pods with any service account of the namespace",
    ),
    ("batch", ("jobs", "cronjobs"), ("create", "update", "patch"), "can run pods with any service account of the namespace"),
    ("", ("secrets",), ("create", "update", "patch"), "can write Secrets, including tokens of service accounts"),
    ("", ("endpoints",), ("create", "update", "patch"), "can redirect the clients of Services"),
    ("discovery.k8s.io", ("endpointslices",), ("create", "update", "patch"), "can redirect the clients of Services"),
    ("networking.k8s.io", ("networkpolicies",), _WRITES, "can open the network of the namespace"),
    (_RBAC, ("roles", "rolebindings", "clusterroles", "clusterrolebindings"), ("create", "update", "patch"), "can grant permissions"),
    ("", ("persistentvolumes",), ("create", "update", "patch"), "can mount any path of a node"),
    ("", ("nodes",), _WRITES, "can control which pods run on a node"),
    ("", ("namespaces",), ("update", "patch"), "can lower the Pod Security Standard of the namespace"),
    (
        _ADMISSION,
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        _WRITES,
        "can read and change what the cluster admits",
    ),
    ("certificates.k8s.io", ("certificatesigningrequests/approval",), ("update", "patch"), "can sign certificates for any user"),
    ("certificates.k8s.io", ("signers",), ("approve", "sign"), "can sign certificates for any user"),
)


def powers(role: Resource) -> Iterator[tuple[Field, str]]:
    """Each place where a rule of a role names a resource that carries power, and what it comes to; objects by name carry none. Raises FieldError."""
    for rule in role.at("rules").each():
        groups, verbs = set(rule.at("apiGroups").texts()) or {""}, set(rule.at("verbs").texts())
        if rule.at("resourceNames").texts() and "create" not in verbs:
            continue
        for place in rule.at("resources").each():
            for group, resources, given, power in POWERS:
                if place.text() in resources and (group in groups or "*" in groups) and not verbs.isdisjoint(given):
                    yield place, power


def grants(role: Resource, verbs: Collection[str], resources: Collection[str]) -> Iterator[tuple[Field, Field]]:
    """Each rule of a role with one of `verbs`, and where it names one of `resources`, written as RBAC does. Raises FieldError.

    Stars count for neither: a rule of its own refuses those.
    """
    for rule in role.at("rules").each():
        named = [each for each in rule.at("resources").each() if each.text() in resources]
        if named and not set(rule.at("verbs").texts()).isdisjoint(verbs):
            yield from ((rule, each) for each in named)
