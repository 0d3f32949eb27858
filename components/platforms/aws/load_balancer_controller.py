"""The AWS Load Balancer Controller for the gateway's Ingress or Service, in a cluster without EKS Auto Mode.

Source: kubernetes-sigs/aws-load-balancer-controller v3.5.0, helm/aws-load-balancer-controller (templates and values.yaml), read 2026-11.
EKS has no add-on for it (aws/containers-roadmap#1162, open). Of its webhooks only the one that adds readiness gates to the gateway's
pods is registered: the others validate what users write, and the fields that they fill are always set here.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pulumi
from pulumi_aws import iam
from pulumi_kubernetes.admissionregistration import v1 as admission
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

from components.naming import selector
from components.network import tcp
from components.platforms.aws.controller_role import COMPONENT, NAMESPACE, calls_aws, controller_account, controller_pods, token_mount
from components.platforms.aws.load_balancer_kinds import NAME, controller_metadata, declare_kinds, grant_permissions
from components.platforms.aws.load_balancer_policy import controller_policy, vpc_policy
from components.platforms.aws.load_balancers import CONTROLLER
from components.platforms.aws.network import network_name
from components.platforms.aws.webhook_certificate import Certificate, webhook_certificate
from components.pod_parts import container_security
from images.catalogue import default_image

if TYPE_CHECKING:
    from components.platforms.aws.cluster_spec import EksCluster, EksClusterHandle

_WEBHOOK = "aws-load-balancer-webhook-service"
_PORT, _HEALTH = 9443, 61779
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - a volume of the pod, not a directory of the node
# The ranges that a VPC can have ("VPC CIDR blocks", read 2026-11), except public ones.
_VPC_NETWORKS = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
_UNUSED = ("ALBGatewayAPI", "NLBGatewayAPI", "GlobalAcceleratorController", "ALBTargetControlAgent")


class LoadBalancerController(pulumi.ComponentResource):
    """The AWS Load Balancer Controller with its role, kinds and webhook; `ingress_class` is the class that it serves.

    `seed` is the secret from which the webhook's certificate is derived. `ready` are the objects without which no load balancer is created or deleted.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: EksCluster,
        home: EksClusterHandle,
        namespace: pulumi.Input[str],
        ingress_class: str | None,
        seed: pulumi.Output[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("inferplan:cluster:LoadBalancerController", name, {"spec": {"ingressClass": ingress_class}}, opts)
        child = pulumi.ResourceOptions(parent=self)
        vpc_name = network_name(cluster.name) if _has_own_vpc(cluster) else None
        policy = controller_policy(cluster.region, cluster.name, vpc_name)
        account, rights = controller_account(NAME, policy, namespace=namespace, home=home, method=cluster.identity, parent=self)
        before = [rights.ready]
        if vpc_name is None:
            before.append(iam.RolePolicy(f"{NAME}-vpc", role=rights.role, policy=vpc_policy(_vpc_arn(home)), opts=child))
        grant_permissions(account, namespace, child)
        kinds = declare_kinds(child)
        host = f"{_WEBHOOK}.{NAMESPACE}.svc"
        certificate = pulumi.Output.secret(seed).apply(lambda text: webhook_certificate(text, host))
        secret = core.Secret(
            f"{NAME}-tls",
            metadata=controller_metadata(namespace, f"{NAME}-tls"),
            type="kubernetes.io/tls",
            string_data={"tls.crt": certificate.apply(_public), "tls.key": certificate.apply(lambda pair: pair.key)},
            opts=child,
        )
        _admit_api_server(namespace, child)
        deployment = apps.Deployment(
            NAME,
            metadata=controller_metadata(namespace),
            spec=_deployment(cluster, home, account, secret, ingress_class),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*before, *kinds]),
        )
        # Only once it runs: without it the API server would wait for an answer at each pod of the gateway.
        webhook = admission.MutatingWebhookConfiguration(
            NAME,
            metadata=controller_metadata(),
            webhooks=[_readiness_gates(certificate.apply(lambda pair: base64.b64encode(pair.certificate.encode()).decode()))],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[deployment]),
        )
        self.ready: tuple[pulumi.Resource, ...] = (deployment, webhook)
        if ingress_class is not None:
            spec = networking.IngressClassSpecArgsDict(controller=CONTROLLER.ingress_controller)
            self.ready = (
                *self.ready,
                networking.IngressClass(ingress_class, metadata=controller_metadata(name=ingress_class), spec=spec, opts=child),
            )
        self.register_outputs({})


def _public(pair: Certificate) -> str:
    return pair.certificate


def _has_own_vpc(cluster: EksCluster) -> bool:
    return cluster.create is not None and cluster.subnets is None


def _vpc_argument(cluster: EksCluster, home: EksClusterHandle) -> pulumi.Input[str]:
    """Return the argument that names the VPC: a created one by its name, so that a plan shows the whole pod before the VPC exists."""
    if _has_own_vpc(cluster):
        return f"--aws-vpc-tags=Name={network_name(cluster.name)}"
    return pulumi.Output.concat("--aws-vpc-id=", home.vpc)


def _vpc_arn(home: EksClusterHandle) -> pulumi.Output[str]:
    parts = pulumi.Output.all(home.arn, home.vpc)
    return parts.apply(lambda known: f"arn:aws:ec2:{home.region}:{known[0].split(':')[4]}:vpc/{known[1]}")


def _readiness_gates(ca: pulumi.Input[str]) -> admission.MutatingWebhookArgsDict:
    """Return the webhook that adds the readiness gate to the gateway's pods; without an answer they start without it."""
    [(key, value)] = CONTROLLER.pod_gates.items()
    rule = admission.RuleWithOperationsArgsDict(api_groups=[""], api_versions=["v1"], operations=["CREATE"], resources=["pods"])
    service = admission.ServiceReferenceArgsDict(name=_WEBHOOK, namespace=NAMESPACE, path="/mutate-v1-pod")
    return admission.MutatingWebhookArgsDict(
        name="mpod.elbv2.k8s.aws",
        admission_review_versions=["v1"],
        client_config=admission.WebhookClientConfigArgsDict(ca_bundle=ca, service=service),
        failure_policy="Ignore",
        timeout_seconds=5,
        side_effects="None",
        namespace_selector=meta.LabelSelectorArgsDict(match_labels={key: value}),
        object_selector=meta.LabelSelectorArgsDict(match_labels=selector("gateway", "gateway")),
        rules=[rule],
    )


def _admit_api_server(namespace: pulumi.Input[str], opts: pulumi.ResourceOptions) -> None:
    """Create the webhook's Service and a policy: the API server calls the webhook from the subnets of the VPC."""
    api_server = [networking.NetworkPolicyPeerArgsDict(ip_block=networking.IPBlockArgsDict(cidr=each)) for each in _VPC_NETWORKS]
    served = networking.NetworkPolicyIngressRuleArgsDict(from_=api_server, ports=tcp(_PORT))
    networking.NetworkPolicy(NAME, metadata=controller_metadata(namespace), spec=calls_aws(NAME, ingress=[served]), opts=opts)
    ports = [core.ServicePortArgsDict(port=443, target_port=_PORT)]
    spec = core.ServiceSpecArgsDict(type="ClusterIP", selector=selector(COMPONENT, NAME), ports=ports)
    core.Service(_WEBHOOK, metadata=controller_metadata(namespace, _WEBHOOK), spec=spec, opts=opts)


def _deployment(
    cluster: EksCluster, home: EksClusterHandle, account: core.ServiceAccount, secret: core.Secret, ingress_class: str | None
) -> apps.DeploymentSpecArgsDict:
    health = core.HTTPGetActionArgsDict(path="/healthz", port=_HEALTH)
    container = core.ContainerArgsDict(
        name="controller",
        image=default_image(NAME),
        working_dir="/",
        command=["/controller"],
        args=[
            f"--cluster-name={cluster.name}",
            *([] if ingress_class is None else [f"--ingress-class={ingress_class}"]),
            # Pods cannot reach the metadata service of the nodes, where it would read both.
            f"--aws-region={cluster.region}",
            _vpc_argument(cluster, home),
            f"--feature-gates={','.join(f'{each}=false' for each in _UNUSED)}",
            "--enable-shield=false",
            "--enable-waf=false",
            "--enable-wafv2=false",
        ],
        ports=[core.ContainerPortArgsDict(name="webhook", container_port=_PORT)],
        resources=core.ResourceRequirementsArgsDict(requests={"cpu": "100m", "memory": "200Mi"}, limits={"memory": "500Mi"}),
        startup_probe=core.ProbeArgsDict(http_get=health, period_seconds=5, timeout_seconds=10, failure_threshold=24),
        readiness_probe=core.ProbeArgsDict(
            http_get=core.HTTPGetActionArgsDict(path="/readyz", port=_HEALTH), period_seconds=10, timeout_seconds=10
        ),
        liveness_probe=core.ProbeArgsDict(http_get=health, period_seconds=10, timeout_seconds=10, failure_threshold=2),
        security_context=container_security(),
        volume_mounts=[token_mount(), core.VolumeMountArgsDict(name="certificate", mount_path=_CERTIFICATES, read_only=True)],
    )
    certificate = core.SecretVolumeSourceArgsDict(secret_name=secret.metadata.name, default_mode=0o440)
    return apps.DeploymentSpecArgsDict(
        replicas=1,
        selector=meta.LabelSelectorArgsDict(match_labels=selector(COMPONENT, NAME)),
        template=controller_pods(
            NAME, account, container, volumes=[core.VolumeArgsDict(name="certificate", secret=certificate)], termination_seconds=10
        ),
    )
