"""New objects that change what others may do: they are risks although nothing existed before."""

from __future__ import annotations

import pytest

from inferplan.review.report import make_report
from inferplan.review.verdict import CALM
from tests.review_streams import preview, step

RBAC = "kubernetes:rbac.authorization.k8s.io/v1"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
WEBHOOK = "kubernetes:admissionregistration.k8s.io/v1:ValidatingWebhookConfiguration"


def binding(role, kind="ClusterRole"):
    return {
        "metadata": {"name": "ops"},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [{"kind": "Group", "name": "night-shift"}],
    }


def rank(type_, inputs):
    return make_report([preview(step("create", type_, "ops", None, inputs))]).rank


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        (f"{RBAC}:RoleBinding", binding("edit")),
        (f"{RBAC}:ClusterRoleBinding", binding("cluster-admin")),
        (f"{RBAC}:ClusterRoleBinding", binding("system:controller:job-controller")),
        (PRIORITY, {"metadata": {"name": "ops"}, "value": 10, "globalDefault": True}),
        (
            WEBHOOK,
            {
                "metadata": {"name": "ops"},
                "webhooks": [{"name": "a.acme.example", "failurePolicy": "Fail"}],
            },
        ),
    ],
)
def test_a_new_object_with_power_over_others_is_a_risk(type_, inputs):
    assert rank(type_, inputs) < CALM


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        (f"{RBAC}:RoleBinding", binding("reader", "Role")),
        (PRIORITY, {"metadata": {"name": "ops"}, "value": 10}),
    ],
)
def test_a_new_object_without_such_power_is_calm(type_, inputs):
    assert rank(type_, inputs) >= CALM
