"""Notes on nodes, and on load balancers that nothing in the cluster creates."""

from __future__ import annotations

import pytest

from inferplan.planning.notes import capacity_notes
from inferplan.planning.plan import notes_before
from inferplan.workspace.workspace import open_workspace
from tests.unit.aws.rig import ADOPTED, CREATED, L40S, SYSTEM, model
from tests.unit.aws.rig import settings as aws_settings

CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/3f1d9f5e-2c1b-4e0a-9a43-7d0e5b6c8a21"
ALB = {"host": "llm.lab.example", "ingressClassName": "alb", "alb": {"certificateArn": CERTIFICATE}}
NLB = {
    "host": "llm.lab.example",
    "exposure": "loadBalancer",
    "nlb": {"certificateArn": CERTIFICATE},
}
NGINX = {"host": "llm.lab.example", "ingressClassName": "nginx", "tls": {"secretName": "tls"}}
DEFAULT_CLASS = {"host": "llm.lab.example", "tls": {"secretName": "tls"}}
GATEWAY_API = {
    "host": "llm.lab.example",
    "exposure": "gatewayApi",
    "parent": {"name": "edge", "namespace": "edge-system"},
}
RACK = {"provider": "existing", "context": "rack"}
RACK_POOLS = {"l40s": {"provider": "existing", "accelerator": "nvidia-l40s", "nodes": 1}}


def notes(stack, **changes):
    settings = open_workspace(stack).settings
    return list(capacity_notes(settings.model_copy(update=changes)))


def test_a_pool_that_grows_for_its_models_is_named_with_both_numbers_and_that_a_rehearsal_does_not_prove_it():
    existing = "\n".join(notes("dev"))
    assert (
        "nodePools.l4 starts with 0 nodes, and its pods need 1: an autoscaler adds the rest."
        in existing
    )
    assert "A rehearsal runs no autoscaler and starts 1 node." in existing


def test_a_pool_in_auto_mode_is_named_with_the_option_that_lets_karpenter_choose():
    [line] = [each for each in notes("prod") if each.startswith("nodePools.l40s")]
    assert "EKS Auto Mode adds the rest." in line
    assert line.endswith(", or those that Karpenter chooses with up --karpenter.")
    # The note also precedes a run with --karpenter, which does run an autoscaler.
    assert "runs no autoscaler" not in line


@pytest.mark.parametrize("autoscaler", ["install", "existing", "none"])
def test_an_autoscaler_without_node_groups_is_named_as_without_effect(autoscaler):
    pool = {**L40S, "instanceTypes": ["g6e.4xlarge"]}
    text = (
        f"cluster.autoscaler: {autoscaler} has no effect, because EKS Auto Mode adds the nodes of"
        " every pool. Remove it."
    )
    cluster = {**CREATED, "autoMode": True, "autoscaler": autoscaler}
    assert text in list(capacity_notes(aws_settings(cluster=cluster, nodePools={"l40s": pool})))
    groups = aws_settings(cluster=cluster, nodePools={"l40s": {**pool, "nodes": "nodeGroup"}})
    assert text not in list(capacity_notes(groups))


def test_nodes_that_the_stack_file_does_not_list_are_named():
    [line] = notes("onprem")
    assert "nodePools lists no nodes without an accelerator" in line
    assert "A rehearsal adds 2 nodes" in line


def test_a_simulated_cluster_has_no_notes():
    assert notes("local") == []


def test_they_are_among_the_notes_of_a_plan():
    assert any(
        "nodePools.l4 starts with 0 nodes" in each for each in notes_before(open_workspace("dev"))
    )


def test_a_pool_without_models_has_no_note():
    assert not [each for each in notes("dev", models={}) if each.startswith("nodePools.")]


@pytest.mark.parametrize(
    ("cluster", "gateway", "expected"),
    [
        ({**CREATED, "loadBalancerController": "none"}, ALB, "no AWS Load Balancer Controller, so the gateway gets no address until cluster has loadBalancerController: install"),
        ({**CREATED, "loadBalancerController": "none"}, NLB, "no AWS Load Balancer Controller"),
        ({**ADOPTED, "loadBalancerController": "none"}, NLB, "no AWS Load Balancer Controller"),
        (CREATED, NGINX, "no ingress controller for class nginx, so the gateway gets no address until you install it"),
        ({**CREATED, "loadBalancerController": "install"}, NGINX, "no ingress controller for class nginx"),
        (CREATED, DEFAULT_CLASS, "no ingress controller for the default class"),
        (CREATED, GATEWAY_API, "no Gateway edge-system/edge"),
        (CREATED, ALB, None),
        (CREATED, NLB, None),
        ({**CREATED, "loadBalancerController": "existing"}, NGINX, None),
        (CREATED, {"exposure": "internal"}, None),
        (ADOPTED, ALB, None),
        (ADOPTED, NGINX, None),
        (RACK, NGINX, None),
        ({**RACK, "loadBalancerController": "none"}, NGINX, "no ingress controller for class nginx"),
        ({**RACK, "loadBalancerController": "none"}, {"exposure": "internal"}, None),
    ],
)  # fmt: skip
def test_a_gateway_that_nothing_serves_is_named_with_the_remedy(cluster, gateway, expected):
    pools = RACK_POOLS if cluster["provider"] == "existing" else {"l40s": L40S, "system": SYSTEM}
    stack = aws_settings(
        cluster=cluster,
        nodePools=pools,
        gateway=gateway,
        models={"m": model()},
        storage={"weights": {"kind": "s3", "bucket": "acme-weights"}},
    )
    found = [each for each in capacity_notes(stack) if each.startswith("gateway: ")]
    assert len(found) == (expected is not None)
    assert not found or expected in found[0]
