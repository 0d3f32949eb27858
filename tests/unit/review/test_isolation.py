"""A NetworkPolicy isolates the pods that it selects: running pods that had every connection lose
those that it does not allow.
"""

from __future__ import annotations

import pytest

from inferplan.review.report import make_report
from tests.review_streams import preview, step

POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def pods(name, namespace="search", **labels):
    template = {
        "metadata": {"labels": {"app": name} | labels},
        "spec": {"containers": [{"name": "c", "image": "a:1"}]},
    }
    inputs = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 2, "template": template},
    }
    return step("same", DEPLOYMENT, name, inputs, inputs)


def policy(selector, namespace="search", **spec):
    return {
        "metadata": {"name": "shut", "namespace": namespace},
        "spec": {"podSelector": selector, **spec},
    }


def isolated(*events):
    (stack,) = make_report([preview(*events)]).stacks
    return [
        (each.what, each.weight, each.consequence)
        for each in stack.risks
        if each.what.startswith("isolates")
    ]


def test_a_new_policy_names_the_pods_and_what_they_lose():
    (risk,) = isolated(
        pods("web"),
        pods("index"),
        pods("far", "other"),
        step("create", POLICY, "shut", None, policy({})),
    )
    assert risk == (
        "isolates running pods for incoming connections",
        0,
        "Deployment web, Deployment index lose every incoming connection",
    )


def test_allowed_connections_and_both_sides_are_told():
    new = policy(
        {"matchLabels": {"app": "web"}},
        policyTypes=["Ingress", "Egress"],
        ingress=[{"from": [{"podSelector": {}}]}],
    )
    told = isolated(pods("web"), pods("index"), step("create", POLICY, "shut", None, new))
    assert [each[2] for each in told] == [
        "Deployment web loses every incoming connection but those that its spec.ingress allows",
        "Deployment web loses every outgoing connection",
    ]


@pytest.mark.parametrize(
    ("selector", "is_selected"),
    [
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        (
            {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "app", "operator": "Unheard"}],
            },
            True,
        ),
        ({"matchLabels": {"app": "other"}}, False),
    ],
)
def test_selectors_are_read_as_kubernetes_reads_them(selector, is_selected):
    assert (
        bool(isolated(pods("web"), step("create", POLICY, "shut", None, policy(selector))))
        is is_selected
    )


def test_pods_that_another_policy_isolates_already_lose_nothing():
    denied = policy({}, policyTypes=["Ingress"])
    both = (pods("web"), step("same", POLICY, "deny", denied, denied))
    assert (
        isolated(
            *both, step("create", POLICY, "allow", None, policy({"matchLabels": {"app": "web"}}))
        )
        == []
    )
    assert (
        len(
            isolated(
                *both, step("create", POLICY, "shut", None, policy({}, policyTypes=["Egress"]))
            )
        )
        == 1
    )


def test_an_edit_that_selects_more_isolates_and_new_pods_are_no_running_ones():
    narrow, wide = policy({"matchLabels": {"app": "index"}}), policy({})
    (risk,) = isolated(pods("web"), pods("index"), step("update", POLICY, "shut", narrow, wide))
    assert risk[2].startswith("Deployment web loses")
    new = pods("web")["resOutputsEvent"]["metadata"]["new"]["inputs"]
    assert (
        isolated(
            step("create", DEPLOYMENT, "web", None, new), step("create", POLICY, "shut", None, wide)
        )
        == []
    )
