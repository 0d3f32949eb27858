"""The controllers in the namespace `cluster-controllers`: an AWS role, permissions in the cluster,
a token, and network access to AWS.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pulumi

from inferplan.components.fields import present
from inferplan.components.kubernetes import apps, core, meta, networking, rbac
from inferplan.components.naming import labels, selector
from inferplan.components.network import POD_IDENTITY_AGENT, outside, policy, tcp
from inferplan.components.platforms.aws.cluster_handle import CONTROLLERS_NAMESPACE as NAMESPACE
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.iam import Document, pod_role
from inferplan.components.pod_parts import (
    api_token_mount,
    api_token_volume,
    container_security,
    pod_security,
)
from inferplan.tables import table

_COMPONENT = "controller"
_RBAC = "rbac.authorization.k8s.io"


class Controller:
    """The controller `name`: its service account, with an AWS role that has the permissions
    `document`; `ready` comes before its pods.
    """

    def __init__(
        self,
        name: str,
        document: Document,
        *,
        namespace: pulumi.Input[str],
        home: EksClusterHandle,
        method: Literal["podIdentity", "irsa"],
        parent: pulumi.Resource,
    ) -> None:
        self.name, self._namespace, self._child = (
            name,
            namespace,
            pulumi.ResourceOptions(parent=parent),
        )
        self.selector = selector(_COMPONENT, name)
        role = pod_role(
            name,
            {name: pulumi.Output.json_dumps(document)},
            home=home,
            method=method,
            namespace=NAMESPACE,
            parent=parent,
        )
        self.role, self.ready = role.name, role.ready
        metadata = self.metadata()
        if role.annotations:
            metadata["annotations"] = role.annotations
        account = core.ServiceAccount(
            name, metadata=metadata, automount_service_account_token=False, opts=self._child
        )
        self.account = account.metadata["name"]

    def metadata(self, name: str | None = None) -> meta.ObjectMetaArgsDict:
        """Return the metadata of an object of the controller in its namespace."""
        return {**self.cluster_metadata(name), "namespace": self._namespace}

    def cluster_metadata(self, name: str | None = None) -> meta.ObjectMetaArgsDict:
        """Return the metadata of an object of the controller that is in no namespace."""
        return {"name": name or self.name, "labels": labels(_COMPONENT, self.name)}

    def grant(self) -> None:
        """Give the service account its permissions in the cluster, and further ones in its
        namespace.
        """
        rows = table("components/platforms/aws/controllers.toml")[self.name]
        account: rbac.SubjectArgsDict = {
            "kind": "ServiceAccount",
            "name": self.account,
            "namespace": self._namespace,
        }
        metadata = self.cluster_metadata()
        cluster_role = rbac.ClusterRole(
            self.name, metadata=metadata, rules=_rules(rows["cluster"]), opts=self._child
        )
        ref: rbac.RoleRefArgsDict = {
            "api_group": _RBAC,
            "kind": "ClusterRole",
            "name": cluster_role.metadata["name"],
        }
        rbac.ClusterRoleBinding(
            self.name, metadata=metadata, role_ref=ref, subjects=[account], opts=self._child
        )
        role = rbac.Role(
            self.name, metadata=self.metadata(), rules=_rules(rows["own"]), opts=self._child
        )
        ref = {"api_group": _RBAC, "kind": "Role", "name": role.metadata["name"]}
        rbac.RoleBinding(
            self.name, metadata=self.metadata(), role_ref=ref, subjects=[account], opts=self._child
        )

    def call_aws(self, ingress: Sequence[networking.NetworkPolicyIngressRuleArgsDict] = ()) -> None:
        """Create a policy that lets the controller call AWS, the API server and the Pod Identity
        agent.
        """
        egress: list[networking.NetworkPolicyEgressRuleArgsDict] = [
            {"to": [outside()], "ports": tcp(443)},
            {"to": [{"ip_block": {"cidr": POD_IDENTITY_AGENT}}], "ports": tcp(80)},
        ]
        spec = policy(self.selector, ingress=ingress, egress=egress)
        networking.NetworkPolicy(self.name, metadata=self.metadata(), spec=spec, opts=self._child)

    def deployment(
        self,
        container: core.ContainerArgsDict,
        *,
        after: Iterable[pulumi.Resource],
        mounts: Sequence[core.VolumeMountArgsDict] = (),
        volumes: Sequence[core.VolumeArgsDict] = (),
        termination_seconds: int | None = None,
        strategy: apps.DeploymentStrategyArgsDict | None = None,
    ) -> apps.Deployment:
        """Create the Deployment of one pod with `container`, which mounts the token and `mounts`."""
        container = {
            **container,
            "working_dir": "/",
            "security_context": container_security(),
            "volume_mounts": [api_token_mount(), *mounts],
        }
        pod: core.PodSpecArgsDict = {
            "service_account_name": self.account,
            "automount_service_account_token": False,
            "enable_service_links": False,
            "termination_grace_period_seconds": termination_seconds,
            "security_context": pod_security(),
            "containers": [container],
            "volumes": [api_token_volume(), *volumes],
        }
        spec: apps.DeploymentSpecArgsDict = {
            "replicas": 1,
            "selector": {"match_labels": self.selector},
            "strategy": strategy,
            "template": {"metadata": {"labels": self.selector}, "spec": present(pod)},
        }
        options = pulumi.ResourceOptions.merge(
            self._child, pulumi.ResourceOptions(depends_on=[self.ready, *after])
        )
        return apps.Deployment(
            self.name, metadata=self.metadata(), spec=present(spec), opts=options
        )


def _rules(rows: Iterable[Sequence[Any]]) -> list[rbac.PolicyRuleArgsDict]:
    rules: list[rbac.PolicyRuleArgsDict] = []
    for group, kinds, verbs, *names in rows:
        rule: rbac.PolicyRuleArgsDict = {"api_groups": [group], "resources": kinds, "verbs": verbs}
        rules.append({**rule, "resource_names": names[0]} if names else rule)
    return rules
