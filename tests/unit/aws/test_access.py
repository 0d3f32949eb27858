"""Who gets into a created cluster, and by what."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pulumi
import pytest

from inferplan.components.platforms.aws import access
from inferplan.components.platforms.aws.creation_spec import EksCreation
from tests.unit.aws.rig import ADOPTED, CREATED, L40S, SYSTEM, _Known, declared

POOLS = {"l40s": L40S, "system": SYSTEM}
ENTRY = "aws:eks/accessEntry:AccessEntry"


def test_administrators_get_an_entry_and_the_policy_that_goes_with_it():
    created = declared(cluster=CREATED, nodePools=POOLS)
    entry = created.one(ENTRY).inputs
    granted = created.one("aws:eks/accessPolicyAssociation:AccessPolicyAssociation").inputs
    assert (
        entry["principalArn"] == granted["principalArn"] == "arn:aws:iam::111122223333:role/people"
    )


def test_principals_whose_names_look_alike_get_an_entry_each():
    admins = [f"arn:aws:iam::111122223333:{each}" for each in ("role/a-b", "role/a/b", "user/a-b")]
    recording = declared(
        cluster={**CREATED, "create": {**CREATED["create"], "admins": admins}}, nodePools=POOLS
    )
    assert sorted(each.inputs["principalArn"] for each in recording.of_type(ENTRY)) == sorted(
        admins
    )


ADMIN = "arn:aws:iam::111122223333:role/team/people"


@pytest.fixture
def warnings(monkeypatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", heard.append)
    return heard


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        (None, None),
        ("arn:aws:sts::111122223333:assumed-role/people/session", None),
        (
            "arn:aws:sts::111122223333:assumed-role/ci/run-17",
            "Add arn:aws:iam::111122223333:role/ci",
        ),
        (
            "arn:aws:sts::999999999999:assumed-role/people/session",
            "Add arn:aws:iam::999999999999:role/people",
        ),
        ("arn:aws:iam::111122223333:user/people", "Add arn:aws:iam::111122223333:user/people"),
        (
            "arn:aws:iam::111122223333:root",
            "does not include the caller arn:aws:iam::111122223333:root",
        ),
    ],
)
def test_a_caller_that_is_not_an_administrator_gets_a_warning(asking, told, monkeypatch, warnings):
    async def caller(_: object) -> str | None:
        return asking

    async def role(*_: object) -> str | None:
        return None

    monkeypatch.setattr(access, "caller_arn", caller)
    monkeypatch.setattr(access, "role_arn", role)
    asyncio.run(access.warn_about_access([ADMIN], pulumi.InvokeOptions()))
    assert [told in each for each in warnings] == ([] if told is None else [True]), warnings


SSO = "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Admin_1f9ff11932198c00"


@pytest.mark.parametrize("admins", [[SSO], [SSO.replace("eu-west-1/", "")]])
def test_a_preview_with_credentials_compares_the_whole_arn_of_the_role(
    admins, monkeypatch, warnings
):
    async def invoke(token: str, arguments: Any, **_: object) -> Any:
        if "CallerIdentity" in token:
            return {
                "arn": (
                    "arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_Admin_1f9ff11932198c00/anna"
                )
            }
        assert (token, arguments) == (
            "aws:iam/getRole:getRole",
            {"name": "AWSReservedSSO_Admin_1f9ff11932198c00"},
        )
        return {"arn": SSO}

    monkeypatch.setattr("pulumi.runtime.invoke_async", invoke)
    asyncio.run(access.warn_about_access(admins, pulumi.InvokeOptions()))
    assert [f"Add {SSO}, or" in each for each in warnings] == ([] if admins == [SSO] else [True])


def test_validation_rejects_a_role_of_iam_identity_center_without_its_path():
    short = "arn:aws:iam::111122223333:role/AWSReservedSSO_Admin_1f9ff11932198c00"
    with pytest.raises(
        ValueError,
        match=(
            r"aws iam get-role --role-name AWSReservedSSO_Admin_1f9ff11932198c00 --query Role.Arn"
        ),
    ):
        EksCreation.model_validate({"kubernetesVersion": "1.34", "admins": [short]})
    assert EksCreation.model_validate({"kubernetesVersion": "1.34", "admins": [SSO]}).admins == [
        SSO
    ]


def test_a_stranger_is_told_as_the_cluster_is_declared_and_gets_no_rights_by_creating_it(warnings):
    class Stranger(_Known):
        def invoke(self, token: str, arguments: Any) -> Any:
            if "getRole" in token:
                return {"arn": "arn:aws:iam::111122223333:role/ci"}
            return (
                {"arn": "arn:aws:sts::111122223333:assumed-role/ci/1"}
                if "Caller" in token
                else super().invoke(token, arguments)
            )

    made = declared(Stranger(), cluster=CREATED, nodePools=POOLS)
    assert (
        made.one("aws:eks/cluster:Cluster").inputs["accessConfig"][
            "bootstrapClusterCreatorAdminPermissions"
        ]
        is False
    )
    [told] = warnings
    assert "role/ci" in told


@pytest.mark.parametrize("cluster", [CREATED, ADOPTED])
def test_the_kubeconfig_holds_no_token_and_asks_for_one(cluster):
    provider = declared(cluster=cluster, nodePools=POOLS).one("pulumi:providers:kubernetes").inputs
    config = json.loads(provider["kubeconfig"])
    [user] = config["users"]
    assert list(user["user"]) == ["exec"]
    assert user["user"]["exec"]["args"][:4] == [
        "eks",
        "get-token",
        "--cluster-name",
        cluster["name"],
    ]
    assert config["clusters"][0]["cluster"]["server"].startswith("https://")
    assert "token" not in user["user"]
    assert "insecure-skip-tls-verify" not in json.dumps(config)
