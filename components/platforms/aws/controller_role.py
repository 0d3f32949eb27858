"""What controllers in the namespace `cluster-controllers` share: an AWS role by EKS Pod Identity or IRSA, a token and their network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
from pulumi_aws import eks, iam
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

from components.egress import POD_IDENTITY_AGENT
from components.fields import present
from components.naming import autonamed, labels, selector
from components.network import outside, policy, tcp
from components.platforms.aws.cluster_spec import EksClusterHandle
from components.platforms.aws.controllers_spec import CONTROLLERS_NAMESPACE as NAMESPACE
from components.platforms.aws.iam import ROLE_NAME, Document, trust_of
from components.pod_parts import pod_security

COMPONENT = "controller"


@dataclass(frozen=True, kw_only=True)
class ControllerRole:
    """The role's name, and what must exist before pods of its service account start."""

    role: pulumi.Output[str]
    ready: pulumi.Resource


def controller_account(
    name: str,
    policy: pulumi.Input[Document],
    *,
    namespace: pulumi.Input[str],
    home: EksClusterHandle,
    method: Literal["podIdentity", "irsa"],
    parent: pulumi.Resource,
) -> tuple[core.ServiceAccount, ControllerRole]:
    """Create the service account `name` with a role that has `policy`."""
    child = pulumi.ResourceOptions(parent=parent)
    document = pulumi.Output.json_dumps(trust_of(home, method, NAMESPACE, name))
    role = iam.Role(autonamed(name, ROLE_NAME), assume_role_policy=document, opts=child)
    rights = iam.RolePolicy(name, role=role.name, policy=pulumi.Output.json_dumps(policy), opts=child)
    # Pods get their credentials at admission, so the role needs its permissions before any pod starts.
    after = pulumi.ResourceOptions(parent=parent, depends_on=[rights])
    annotations = {"eks.amazonaws.com/role-arn": role.arn} if method == "irsa" else None
    ready: pulumi.Resource = rights
    if method == "podIdentity":
        ready = eks.PodIdentityAssociation(
            name, cluster_name=home.name, namespace=NAMESPACE, service_account=name, role_arn=role.arn, opts=after
        )
    account = core.ServiceAccount(
        name,
        metadata=present(meta.ObjectMetaArgsDict(name=name, namespace=namespace, labels=labels(COMPONENT, name), annotations=annotations)),
        automount_service_account_token=False,
        opts=child,
    )
    return account, ControllerRole(role=role.name, ready=ready)


def controller_pods(
    name: str,
    account: core.ServiceAccount,
    container: core.ContainerArgsDict,
    *,
    volumes: Sequence[core.VolumeArgsDict] = (),
    termination_seconds: int | None = None,
) -> core.PodTemplateSpecArgsDict:
    """Return the pods of the controller `name`: `container`, which mounts the token, with `volumes` in addition to the token's."""
    return core.PodTemplateSpecArgsDict(
        metadata=meta.ObjectMetaArgsDict(labels=selector(COMPONENT, name)),
        spec=present(
            core.PodSpecArgsDict(
                service_account_name=account.metadata.name,
                automount_service_account_token=False,
                enable_service_links=False,
                termination_grace_period_seconds=termination_seconds,
                security_context=pod_security(),
                containers=[container],
                volumes=[_token_volume(), *volumes],
            )
        ),
    )


def _token_volume() -> core.VolumeArgsDict:
    """Return the volume `token` with a token that expires, where clients of Kubernetes look for one."""
    sources = [
        core.VolumeProjectionArgsDict(
            service_account_token=core.ServiceAccountTokenProjectionArgsDict(path="token", expiration_seconds=3607)
        ),
        core.VolumeProjectionArgsDict(
            config_map=core.ConfigMapProjectionArgsDict(
                name="kube-root-ca.crt", items=[core.KeyToPathArgsDict(key="ca.crt", path="ca.crt")]
            )
        ),
        core.VolumeProjectionArgsDict(
            downward_api=core.DownwardAPIProjectionArgsDict(
                items=[
                    core.DownwardAPIVolumeFileArgsDict(
                        path="namespace", field_ref=core.ObjectFieldSelectorArgsDict(field_path="metadata.namespace")
                    )
                ]
            )
        ),
    ]
    return core.VolumeArgsDict(name="token", projected=core.ProjectedVolumeSourceArgsDict(sources=sources, default_mode=0o440))


def token_mount() -> core.VolumeMountArgsDict:
    """Return the mount of the token."""
    return core.VolumeMountArgsDict(name="token", mount_path="/var/run/secrets/kubernetes.io/serviceaccount", read_only=True)


def calls_aws(name: str, *, ingress: Sequence[networking.NetworkPolicyIngressRuleArgsDict] = ()) -> networking.NetworkPolicySpecArgsDict:
    """Return a policy that lets the controller `name` call AWS, the API server and the Pod Identity agent."""
    agent = networking.NetworkPolicyPeerArgsDict(ip_block=networking.IPBlockArgsDict(cidr=POD_IDENTITY_AGENT))
    edges = [
        networking.NetworkPolicyEgressRuleArgsDict(to=[outside()], ports=tcp(443)),
        networking.NetworkPolicyEgressRuleArgsDict(to=[agent], ports=tcp(80)),
    ]
    return policy(selector(COMPONENT, name), ingress=ingress, egress=edges)
