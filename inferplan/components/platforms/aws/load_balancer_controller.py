"""The AWS Load Balancer Controller for the gateway's Ingress or Service, in a cluster without EKS
Auto Mode.

Source: kubernetes-sigs/aws-load-balancer-controller v3.5.0, helm/aws-load-balancer-controller
(templates and values.yaml), config/rbac and config/crd, read 2026-11, without the kinds of features
that the controller runs without. EKS has no add-on for it (aws/containers-roadmap#1162, open). Of
its webhooks only the one that adds readiness gates to the gateway's pods is registered: the others
validate what users write, and the fields that they fill are always set here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import NamedTuple, cast

import pulumi
from pulumi_aws import iam

from inferplan.components.kubernetes import admission, core, extensions, networking
from inferplan.components.naming import selector
from inferplan.components.network import tcp
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.cluster_handle import (
    CONTROLLERS_NAMESPACE,
    EksClusterHandle,
)
from inferplan.components.platforms.aws.controller import Controller
from inferplan.components.platforms.aws.load_balancer_policy import controller_policy, vpc_policy
from inferplan.components.platforms.aws.load_balancers import CONTROLLER
from inferplan.components.platforms.aws.network import network_name
from inferplan.images.catalogue import default_image

NAME = "aws-load-balancer-controller"
_GROUP = "elbv2.k8s.aws"
# The kinds that it always watches; its own definitions of them only add validation.
_KINDS = (
    ("TargetGroupBinding", "targetgroupbindings", "Namespaced"),
    ("IngressClassParams", "ingressclassparams", "Cluster"),
)
_WEBHOOK = "aws-load-balancer-webhook-service"
_PORT, _HEALTH = 9443, 61779
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - a volume of the pod, not a directory of the node
# The ranges that a VPC can have ("VPC CIDR blocks", read 2026-11), except public ones.
_VPC_NETWORKS = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
_UNUSED = ("ALBGatewayAPI", "NLBGatewayAPI", "GlobalAcceleratorController", "ALBTargetControlAgent")
# The validity of the certificate is that of the controller's chart; a new apiKeySeed makes a new
# certificate.
_FROM, _UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)


class LoadBalancerController(pulumi.ComponentResource):
    """The AWS Load Balancer Controller with its role, kinds and webhook; `ingress_class` is the
    class that it serves.

    `seed` is the secret from which the webhook's certificate is derived. `ready` are the objects
    without which no load balancer is created or deleted.
    """

    def __init__(
        self,
        cluster: EksClusterFields,
        *,
        home: EksClusterHandle,
        namespace: pulumi.Input[str],
        ingress_class: str | None,
        seed: pulumi.Output[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__(
            "inferplan:cluster:LoadBalancerController",
            NAME,
            {"spec": {"ingressClass": ingress_class}},
            opts,
        )
        child = pulumi.ResourceOptions(parent=self)
        # A created VPC is selected by its name, so that a plan shows the whole policy and pod
        # before the VPC exists.
        vpc_name = (
            network_name(cluster.name)
            if cluster.create is not None and cluster.subnets is None
            else None
        )
        policy = controller_policy(cluster.region, cluster.name, vpc_name)
        controller = Controller(
            NAME, policy, namespace=namespace, home=home, method=cluster.identity, parent=self
        )
        before: list[pulumi.Resource] = []
        vpc: pulumi.Input[str] = f"--aws-vpc-tags=Name={vpc_name}"
        if vpc_name is None:
            vpc = pulumi.Output.concat("--aws-vpc-id=", home.vpc)
            rights = vpc_policy(_vpc_arn(home))
            before.append(
                iam.RolePolicy(f"{NAME}-vpc", role=controller.role, policy=rights, opts=child)
            )
        controller.grant()
        before += [_kind(*each, controller, child) for each in _KINDS]
        certificate = pulumi.Output.secret(seed).apply(
            lambda text: webhook_certificate(text, f"{_WEBHOOK}.{CONTROLLERS_NAMESPACE}.svc")
        )
        secret = _tls_secret(certificate, controller, child)
        _admit_api_server(controller, child)
        deployment = controller.deployment(
            _container(cluster, vpc, ingress_class),
            after=before,
            mounts=[{"name": "certificate", "mount_path": _CERTIFICATES, "read_only": True}],
            volumes=[
                {
                    "name": "certificate",
                    "secret": {"secret_name": secret.metadata["name"], "default_mode": 0o440},
                }
            ],
            termination_seconds=10,
        )
        # Only once it runs: without it the API server would wait for an answer at each pod of the
        # gateway.
        authority = certificate.apply(
            lambda pair: base64.b64encode(pair.certificate.encode()).decode()
        )
        webhook = admission.MutatingWebhookConfiguration(
            NAME,
            metadata=controller.cluster_metadata(),
            webhooks=[_readiness_gates(authority)],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[deployment]),
        )
        self.ready: tuple[pulumi.Resource, ...] = (deployment, webhook)
        if ingress_class is not None:
            self.ready += (_ingress_class(ingress_class, controller, child),)
        self.register_outputs({})


def _tls_secret(
    certificate: pulumi.Output[Certificate],
    controller: Controller,
    opts: pulumi.ResourceOptions,
) -> core.Secret:
    return core.Secret(
        f"{NAME}-tls",
        metadata=controller.metadata(f"{NAME}-tls"),
        type="kubernetes.io/tls",
        string_data={
            "tls.crt": certificate.apply(lambda pair: pair.certificate),
            "tls.key": certificate.apply(lambda pair: pair.key),
        },
        opts=opts,
    )


def _ingress_class(
    name: str, controller: Controller, opts: pulumi.ResourceOptions
) -> networking.IngressClass:
    spec: networking.IngressClassSpecArgsDict = {"controller": CONTROLLER.ingress_controller}
    return networking.IngressClass(
        name, metadata=controller.cluster_metadata(name), spec=spec, opts=opts
    )


def _vpc_arn(home: EksClusterHandle) -> pulumi.Output[str]:
    parts = pulumi.Output.all(home.arn, home.vpc)
    return parts.apply(
        lambda resolved: f"arn:aws:ec2:{home.region}:{resolved[0].split(':')[4]}:vpc/{resolved[1]}"
    )


def _readiness_gates(ca: pulumi.Input[str]) -> admission.MutatingWebhookArgsDict:
    """Return the webhook that adds the readiness gate to the gateway's pods; without an answer they
    start without it.
    """
    return {
        "name": "mpod.elbv2.k8s.aws",
        "admission_review_versions": ["v1"],
        "client_config": {
            "ca_bundle": ca,
            "service": {
                "name": _WEBHOOK,
                "namespace": CONTROLLERS_NAMESPACE,
                "path": "/mutate-v1-pod",
            },
        },
        "failure_policy": "Ignore",
        "timeout_seconds": 5,
        "side_effects": "None",
        "namespace_selector": {"match_labels": CONTROLLER.pod_gates},
        "object_selector": {"match_labels": selector("gateway", "gateway")},
        "rules": [
            {
                "api_groups": [""],
                "api_versions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
    }


def _admit_api_server(controller: Controller, opts: pulumi.ResourceOptions) -> None:
    """Create the webhook's Service and a policy: the API server calls the webhook from the subnets
    of the VPC.
    """
    controller.call_aws(
        [{"from_": [{"ip_block": {"cidr": each}} for each in _VPC_NETWORKS], "ports": tcp(_PORT)}]
    )
    ports: list[core.ServicePortArgsDict] = [{"port": 443, "target_port": _PORT}]
    spec: core.ServiceSpecArgsDict = {
        "type": "ClusterIP",
        "selector": controller.selector,
        "ports": ports,
    }
    core.Service(_WEBHOOK, metadata=controller.metadata(_WEBHOOK), spec=spec, opts=opts)


def _container(
    cluster: EksClusterFields, vpc: pulumi.Input[str], ingress_class: str | None
) -> core.ContainerArgsDict:
    health: core.HTTPGetActionArgsDict = {"path": "/healthz", "port": _HEALTH}
    return {
        "name": "controller",
        "image": default_image(NAME),
        "command": ["/controller"],
        "args": [
            f"--cluster-name={cluster.name}",
            *([] if ingress_class is None else [f"--ingress-class={ingress_class}"]),
            # Pods cannot reach the metadata service of the nodes, where it would read both.
            f"--aws-region={cluster.region}",
            vpc,
            f"--feature-gates={','.join(f'{each}=false' for each in _UNUSED)}",
            "--enable-shield=false",
            "--enable-waf=false",
            "--enable-wafv2=false",
        ],
        "ports": [{"name": "webhook", "container_port": _PORT}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "200Mi"},
            "limits": {"memory": "500Mi"},
        },
        "startup_probe": {
            "http_get": health,
            "period_seconds": 5,
            "timeout_seconds": 10,
            "failure_threshold": 24,
        },
        "readiness_probe": {
            "http_get": {"path": "/readyz", "port": _HEALTH},
            "period_seconds": 10,
            "timeout_seconds": 10,
        },
        "liveness_probe": {
            "http_get": health,
            "period_seconds": 10,
            "timeout_seconds": 10,
            "failure_threshold": 2,
        },
    }


def _kind(
    kind: str, plural: str, scope: str, controller: Controller, opts: pulumi.ResourceOptions
) -> extensions.CustomResourceDefinition:
    """Declare one of the kinds that the controller watches, without validation of its fields."""
    name = f"{plural}.{_GROUP}"
    # The typed dictionary spells the last key with underscores, which only Pulumi's own provider
    # translates.
    schema = cast(
        "extensions.JSONSchemaPropsArgsDict",
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )
    spec: extensions.CustomResourceDefinitionSpecArgsDict = {
        "group": _GROUP,
        "scope": scope,
        "names": {
            "kind": kind,
            "plural": plural,
            "singular": kind.lower(),
            "list_kind": f"{kind}List",
        },
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"open_apiv3_schema": schema},
                "subresources": {"status": {}},
            }
        ],
    }
    return extensions.CustomResourceDefinition(
        name, metadata=controller.cluster_metadata(name), spec=spec, opts=opts
    )


class Certificate(NamedTuple):
    """A self-signed certificate and its private key, in PEM."""

    certificate: str
    key: str


def webhook_certificate(seed: str, host: str) -> Certificate:
    """Return the certificate of `host`. Ed25519 signatures have no random part, so the same seed
    gives the same bytes.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    digest = hmac.new(
        seed.encode(), f"webhook certificate {host}".encode(), hashlib.sha256
    ).digest()
    key = Ed25519PrivateKey.from_private_bytes(digest)
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "inferplan")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(digest).digest()[:16], "big"))
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    made = builder.sign(key, algorithm=None)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(made.public_bytes(serialization.Encoding.PEM).decode(), private.decode())
