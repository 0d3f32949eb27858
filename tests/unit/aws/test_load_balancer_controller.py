"""The AWS Load Balancer Controller of a cluster without EKS Auto Mode: when it is installed, what
it may do, and its webhook.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509

from inferplan.components.platforms.aws.load_balancer_controller import webhook_certificate
from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.evaluator import Request, allowed
from tests.unit.aws.rig import (
    ADOPTED,
    BUCKET,
    CREATED,
    L40S,
    SYSTEM,
    declared,
    document,
    model,
    upstream,
)
from tests.unit.test_capacity_notes import ALB, NGINX, NLB

GROUPS = {**CREATED, "autoMode": False}
POOLS = {"l40s": L40S, "system": SYSTEM}
NAME = "aws-load-balancer-controller"
HOST = "aws-load-balancer-webhook-service.cluster-controllers.svc"
BALANCER = "arn:aws:elasticloadbalancing:us-east-1:111122223333:loadbalancer/app/k8s-gateway/1"
GROUP = "arn:aws:ec2:us-east-1:111122223333:security-group/sg-1"
TAG = "elbv2.k8s.aws/cluster"


def stack(**parts: Any) -> Recording:
    return declared(
        **{
            "cluster": GROUPS,
            "nodePools": POOLS,
            "storage": {"weights": BUCKET},
            "models": {"llama": model()},
            "gateway": ALB,
            **parts,
        }
    )


@pytest.fixture(scope="module")
def installed() -> Recording:
    return stack()


@pytest.mark.parametrize(
    ("cluster", "gateway", "expected"),
    [
        (GROUPS, ALB, True),
        (GROUPS, NLB, True),
        (GROUPS, NGINX, False),
        (GROUPS, {"exposure": "internal"}, False),
        ({**GROUPS, "loadBalancerController": "existing"}, ALB, False),
        ({**GROUPS, "loadBalancerController": "none"}, ALB, False),
        ({**CREATED, "autoMode": True}, ALB, False),
        (ADOPTED, ALB, False),
        ({**ADOPTED, "loadBalancerController": "install"}, ALB, True),
    ],
)
def test_it_is_installed_only_for_a_load_balancer_that_nothing_else_creates(
    cluster, gateway, expected
):
    recording = stack(cluster=cluster, gateway=gateway, models={})
    assert (
        bool(
            [
                each
                for each in recording.of_type("kubernetes:apps/v1:Deployment")
                if each.name == NAME
            ]
        )
        == expected
    )


def test_the_class_of_the_ingress_is_its_own(installed):
    ingress_class = installed.one("kubernetes:networking.k8s.io/v1:IngressClass", "alb")
    assert ingress_class.inputs["spec"] == {"controller": "ingress.k8s.aws/alb"}
    [container] = installed.one("kubernetes:apps/v1:Deployment", NAME).inputs["spec"]["template"][
        "spec"
    ]["containers"]
    assert {"--cluster-name=prod", "--ingress-class=alb", "--aws-region=us-east-1"} <= set(
        container["args"]
    )


def test_it_changes_load_balancers_and_security_groups_of_its_cluster_only(installed):
    rights = [
        document(each.inputs["policy"])
        for each in installed.of_type("aws:iam/rolePolicy:RolePolicy")
        if each.name == NAME
    ]
    changes = [
        ("elasticloadbalancing:DeleteLoadBalancer", BALANCER),
        ("elasticloadbalancing:CreateListener", BALANCER),
        ("ec2:DeleteSecurityGroup", GROUP),
    ]
    for action, resource in changes:
        assert allowed(
            rights, Request(action, resource, context={f"aws:ResourceTag/{TAG}": "prod"})
        )
        assert not allowed(
            rights, Request(action, resource, context={f"aws:ResourceTag/{TAG}": "other"})
        )
        assert not allowed(rights, Request(action, resource))
    assert allowed(
        rights,
        Request(
            "elasticloadbalancing:CreateLoadBalancer",
            BALANCER,
            context={f"aws:RequestTag/{TAG}": "prod"},
        ),
    )
    assert not allowed(rights, Request("elasticloadbalancing:CreateLoadBalancer", BALANCER))
    nodes = {"aws:ResourceTag/kubernetes.io/cluster/prod": "owned"}
    assert allowed(rights, Request("ec2:AuthorizeSecurityGroupIngress", GROUP, context=nodes))
    assert not allowed(rights, Request("ec2:DeleteSecurityGroup", GROUP, context=nodes))


def test_the_ingress_and_the_namespace_are_deleted_before_it(installed):
    deployment = installed.one("kubernetes:apps/v1:Deployment", NAME)
    for kind, name in (
        ("networking.k8s.io/v1:Ingress", "gateway"),
        ("core/v1:Namespace", "inference"),
    ):
        assert deployment.urn in upstream(installed, installed.one(f"kubernetes:{kind}", name).urn)


def test_only_pods_of_the_gateway_ask_its_webhook_and_start_without_an_answer(installed):
    [webhook] = installed.one(
        "kubernetes:admissionregistration.k8s.io/v1:MutatingWebhookConfiguration", NAME
    ).inputs["webhooks"]
    assert webhook["failurePolicy"] == "Ignore"
    pods = installed.one("kubernetes:apps/v1:Deployment", "gateway").inputs["spec"]["template"][
        "metadata"
    ]["labels"]
    assert webhook["objectSelector"]["matchLabels"].items() <= pods.items()
    space = installed.one("kubernetes:core/v1:Namespace", "inference").inputs["metadata"]["labels"]
    assert webhook["namespaceSelector"]["matchLabels"].items() <= space.items()


def test_the_certificate_is_the_same_at_every_update_and_follows_the_seed():
    first, second, other = (
        webhook_certificate(seed, HOST) for seed in ("a" * 64, "a" * 64, "b" * 64)
    )
    assert first == second
    assert first.certificate != other.certificate
    made = x509.load_pem_x509_certificate(first.certificate.encode())
    names = made.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    ).value.get_values_for_type(x509.DNSName)
    assert names == [HOST]
    made.verify_directly_issued_by(made)
    assert made.not_valid_after_utc > datetime(2035, 1, 1, tzinfo=UTC)


def test_a_client_with_the_bundle_trusts_the_server(tmp_path):
    import socket
    import ssl
    import threading

    pair = webhook_certificate("c" * 64, HOST)
    (tmp_path / "tls.crt").write_text(pair.certificate)
    (tmp_path / "tls.key").write_text(pair.key)
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(cadata=pair.certificate),
    )
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    near, far = socket.socketpair()
    thread = threading.Thread(target=lambda: server.wrap_socket(far, server_side=True).close())
    thread.start()
    with client.wrap_socket(near, server_hostname=HOST) as secured:
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    thread.join()


def test_the_key_never_leaves_the_secret(installed):
    secret = installed.one("kubernetes:core/v1:Secret", f"{NAME}-tls")
    assert "PRIVATE KEY" not in str([each.inputs for each in installed if each.urn != secret.urn])
