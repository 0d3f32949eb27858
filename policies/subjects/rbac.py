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


def grants(role: Resource, verbs: Collection[str], resources: Collection[str]) -> Iterator[tuple[Field, Field]]:
    """Each rule of a role with one of `verbs`, and where it names one of `resources`, written as RBAC does. Raises FieldError.

    Stars count for neither: a rule of its own refuses those.
    """
    for rule in role.at("rules").each():
        named = [each for each in rule.at("resources").each() if each.text() in resources]
        if named and not set(rule.at("verbs").texts()).isdisjoint(verbs):
            yield from ((rule, each) for each in named)
