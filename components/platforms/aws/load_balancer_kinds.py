"""What the AWS Load Balancer Controller needs in the API server: its kinds, and its rights.

Source: kubernetes-sigs/aws-load-balancer-controller v3.5.0, config/rbac and config/crd, read 2026-11, without the kinds of features that
the controller runs without.
"""

from __future__ import annotations

from typing import cast

import pulumi
from pulumi_kubernetes.apiextensions import v1 as extensions
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.rbac import v1 as rbac

from components.fields import present
from components.naming import labels
from components.platforms.aws.controller_role import COMPONENT

NAME = "aws-load-balancer-controller"
_GROUP = "elbv2.k8s.aws"
_READ = ["get", "list", "watch"]
_CLUSTER_RULES = (
    ("", ["endpoints", "namespaces", "nodes", "pods"], _READ),
    ("", ["events"], ["create", "patch"]),
    ("", ["pods/status", "services/status"], ["patch", "update"]),
    ("", ["services"], [*_READ, "patch", "update"]),
    ("discovery.k8s.io", ["endpointslices"], _READ),
    (_GROUP, ["ingressclassparams"], _READ),
    (_GROUP, ["targetgroupbindings"], [*_READ, "create", "delete", "patch", "update"]),
    (_GROUP, ["targetgroupbindings/status"], ["patch", "update"]),
    ("networking.k8s.io", ["ingresses"], [*_READ, "patch", "update"]),
    ("networking.k8s.io", ["ingresses/status"], ["patch", "update"]),
    ("networking.k8s.io", ["ingressclasses"], _READ),
)
# The kinds that it always watches; its own definitions of them only add validation.
_KINDS = (("TargetGroupBinding", "targetgroupbindings", "Namespaced"), ("IngressClassParams", "ingressclassparams", "Cluster"))


def controller_metadata(namespace: pulumi.Input[str] | None = None, name: str = NAME) -> meta.ObjectMetaArgsDict:
    """Return the metadata of an object of the controller."""
    return present(meta.ObjectMetaArgsDict(name=name, namespace=namespace, labels=labels(COMPONENT, NAME)))


def grant_permissions(account: core.ServiceAccount, namespace: pulumi.Input[str], child: pulumi.ResourceOptions) -> None:
    """Give the service account its rights in the cluster, and the Lease in its namespace."""
    subject = rbac.SubjectArgsDict(kind="ServiceAccount", name=account.metadata.name, namespace=namespace)
    api = "rbac.authorization.k8s.io"
    rules = [rbac.PolicyRuleArgsDict(api_groups=[group], resources=kinds, verbs=verbs) for group, kinds, verbs in _CLUSTER_RULES]
    cluster_role = rbac.ClusterRole(NAME, metadata=controller_metadata(), rules=rules, opts=child)
    ref = rbac.RoleRefArgsDict(api_group=api, kind="ClusterRole", name=cluster_role.metadata.name)
    rbac.ClusterRoleBinding(NAME, metadata=controller_metadata(), role_ref=ref, subjects=[subject], opts=child)
    lease = {"api_groups": ["coordination.k8s.io"], "resources": ["leases"]}
    own = [
        rbac.PolicyRuleArgsDict(**lease, verbs=["create"]),
        rbac.PolicyRuleArgsDict(**lease, resource_names=[f"{NAME}-leader"], verbs=["get", "patch", "update"]),
    ]
    role = rbac.Role(NAME, metadata=controller_metadata(namespace), rules=own, opts=child)
    ref = rbac.RoleRefArgsDict(api_group=api, kind="Role", name=role.metadata.name)
    rbac.RoleBinding(NAME, metadata=controller_metadata(namespace), role_ref=ref, subjects=[subject], opts=child)


def declare_kinds(opts: pulumi.ResourceOptions) -> list[extensions.CustomResourceDefinition]:
    """Declare the kinds that the controller watches."""
    return [_kind(*each, opts=opts) for each in _KINDS]


def _kind(kind: str, plural: str, scope: str, *, opts: pulumi.ResourceOptions) -> extensions.CustomResourceDefinition:
    """Declare one of the controller's kinds without validation of its fields."""
    # The typed arguments spell the last key with underscores, which only Pulumi's own provider translates.
    schema = cast("extensions.JSONSchemaPropsArgsDict", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    version = extensions.CustomResourceDefinitionVersionArgsDict(
        name="v1beta1",
        served=True,
        storage=True,
        schema=extensions.CustomResourceValidationArgsDict(open_apiv3_schema=schema),
        subresources=extensions.CustomResourceSubresourcesArgsDict(status={}),
    )
    return extensions.CustomResourceDefinition(
        f"{plural}.{_GROUP}",
        metadata=controller_metadata(name=f"{plural}.{_GROUP}"),
        spec=extensions.CustomResourceDefinitionSpecArgsDict(
            group=_GROUP,
            scope=scope,
            names=extensions.CustomResourceDefinitionNamesArgsDict(
                kind=kind, plural=plural, singular=kind.lower(), list_kind=f"{kind}List"
            ),
            versions=[version],
        ),
        opts=opts,
    )
