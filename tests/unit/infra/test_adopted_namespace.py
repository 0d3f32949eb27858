"""A stack in a namespace that exists already declares nothing that changes the namespace or the
pods of others.
"""

from __future__ import annotations

import pytest

from inferplan.components.naming import POD_COMPONENTS
from inferplan.components.router.spec import COMPONENT as ROUTER
from inferplan.kube.names import COMPONENT_LABEL, MONTHLY_BUDGET
from inferplan.planning.policy_check import judge
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.stackfile.reader import read_stack
from tests.plans import PLANS, ROOT, recorded


@pytest.fixture(scope="module", params=["local", "onprem"])
def recording(request):
    file = read_stack(ROOT / "stacks" / f"Pulumi.{request.param}.yaml")
    secrets = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=None,
        environment={"PULUMI_CONFIG_PASSPHRASE": "inferplan-example"},
    )
    config = {
        **file.config,
        **secrets.values,
        "inferplan:adoptNamespace": "true",
        "inferplan:budget": '{"monthlyUsd": 99999999}',
    }
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack=request.param,
        config=config,
        secret_keys=frozenset(secrets.values),
    )


def test_it_declares_no_namespace_and_no_quota_and_isolates_only_its_own_pods(recording):
    kinds = {each.type for each in recording}
    assert not kinds & {"kubernetes:core/v1:Namespace", "kubernetes:core/v1:ResourceQuota"}
    policies = {
        each.inputs["metadata"]["name"]: each.inputs
        for each in recording
        if each.type.endswith(":NetworkPolicy")
    }
    for name in ("default-deny", "allow-dns"):
        [expression] = policies[name]["spec"]["podSelector"]["matchExpressions"]
        assert (expression["key"], expression["operator"], expression["values"]) == (
            COMPONENT_LABEL,
            "In",
            list(POD_COMPONENTS),
        )
    assert policies["default-deny"]["metadata"]["annotations"] == {MONTHLY_BUDGET: "99999999"}
    assert all(
        each.inputs["metadata"]["namespace"] == "inference"
        for each in recording
        if each.type.endswith(":Deployment")
    )


def test_the_policies_accept_it_and_still_require_that_every_pod_is_isolated(recording):
    violations = {each.rule for each in judge(recording, ROOT).violations}
    assert "stack-require-default-deny" not in violations
    assert not violations


def test_every_pod_of_every_plan_is_selected():
    labels = set()
    for plan in PLANS:
        for each in recorded(plan):
            namespace = (each.inputs.get("metadata") or {}).get("namespace")
            template = (each.inputs.get("spec") or {}).get("template") or {}
            if (
                each.type.startswith("kubernetes:")
                and template.get("spec")
                and namespace == "inference"
            ):
                labels.add(template["metadata"]["labels"][COMPONENT_LABEL])
    assert labels
    # No plan of an example has a router.
    assert labels | {ROUTER} <= set(POD_COMPONENTS)
