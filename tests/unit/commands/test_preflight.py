"""A cluster that lacks an operator or a right is told before anything is changed."""

from __future__ import annotations

import pytest

from inferplan.errors import OperationError
from inferplan.updating.preflight import check_operators, parse_rules
from inferplan.workspace.live import LiveCluster, ObjectKey

DEPLOYMENT = ObjectKey("apps/v1", "Deployment", "chat", "llama")
OPERATED = [
    (ObjectKey("gateway.networking.k8s.io/v1", "HTTPRoute", "chat", "llama"), "Gateway API"),
    (
        ObjectKey("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", "chat", "llama"),
        "Envoy Gateway",
    ),
    (
        ObjectKey("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "chat", "llama"),
        "LeaderWorkerSet",
    ),
    (ObjectKey("ray.io/v1", "RayService", "chat", "llama"), "KubeRay"),
    (ObjectKey("kueue.x-k8s.io/v1beta2", "LocalQueue", "chat", "serving"), "Kueue"),
]


def cluster(*groups: str) -> LiveCluster:
    """A cluster with Deployments, and with the API groups named, each in its version v1alpha1
    without any kind.
    """
    answers = {
        "/apis": {
            "groups": [
                {"versions": [{"groupVersion": each}]}
                for each in ("apps/v1", *(f"{group}/v1alpha1" for group in groups))
            ]
        },
        "/apis/apps/v1": {
            "resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]
        },
    }
    return LiveCluster(lambda path: answers.get(path, {"resources": []}))


@pytest.mark.parametrize(("needed", "operator"), OPERATED, ids=[name for _, name in OPERATED])
@pytest.mark.parametrize(
    "groups",
    [(), ("gateway.networking.k8s.io", "ray.io", "kueue.x-k8s.io")],
    ids=["absent", "another version"],
)
def test_a_missing_operator_is_named_with_its_kind_and_the_command_that_installs_it(
    needed, operator, groups
):
    with pytest.raises(OperationError) as caught:
        check_operators([DEPLOYMENT, needed], cluster(*groups), stack="chat", simulated=False)
    told = str(caught.value)
    assert "Nothing was changed" in told
    assert (
        f"{operator}: the cluster does not serve {needed.kind} of {needed.api_version}; install"
        " it: " in told
    )
    assert "Deployment" not in told
    assert type(caught.value) is OperationError


def test_every_missing_operator_is_named_at_once():
    with pytest.raises(OperationError) as caught:
        check_operators([each for each, _ in OPERATED], cluster(), stack="chat", simulated=False)
    assert all(operator in str(caught.value) for _, operator in OPERATED)


def test_a_simulated_cluster_runs_no_operator_under_the_cli_and_the_rehearsal_is_named():
    with pytest.raises(OperationError, match="inferplan up chat --engine rehearsal"):
        check_operators([OPERATED[0][0]], cluster(), stack="chat", simulated=True)


def test_a_cluster_that_serves_everything_is_fine():
    check_operators([DEPLOYMENT], cluster(), stack="chat", simulated=False)


# kubectl 1.34, `kubectl auth can-i --list --no-headers` of an account bound to the role `edit`,
# shortened (2026-11).
LISTED = """\
selfsubjectreviews.authentication.k8s.io        []                                     []               [create]
deployments.apps                                []                                     []               [create delete deletecollection patch update get list watch]
secrets                                         []                                     [one]            [get]
                                                [/api/*]                               []               [get]
*.ray.io                                        []                                     []               [*]
"""


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        ("create", "deployments.apps", True),
        ("create", "daemonsets.apps", False),
        ("create", "rayservices.ray.io", True),
        ("get", "secrets", False),
        ("create", "selfsubjectreviews.authentication.k8s.io", True),
        ("delete", "selfsubjectreviews.authentication.k8s.io", False),
    ],
)
def test_rights_are_read_from_kubectls_table(verb, resource, allowed):
    assert any(rule.allows(verb, resource) for rule in parse_rules(LISTED.splitlines())) is allowed


def test_an_administrator_may_do_everything():
    assert all(rule.allows("patch", "nodes") for rule in parse_rules(["*.*    []    []    [*]"]))
