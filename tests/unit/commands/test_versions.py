"""`inferplan versions`: newest add-ons and node images, from the answers of AWS; the parameters are
checked against the API's model.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from inferplan.commands import main
from inferplan.commands.versions import newest
from inferplan.commands.versions import newest as module
from inferplan.workspace.workspace import open_workspace
from tests.stacks.test_committed_stacks import ROOT

ADDON_VERSIONS = ["v1.9.4-eksbuild.1", "v1.20.4-eksbuild.2", "v1.20.4-eksbuild.10"]
ADDONS = [{"addonName": "vpc-cni", "addonVersion": "v1.9.4-eksbuild.1"}, {"addonName": "coredns"}]


class Aws:
    """Answers as EKS and Systems Manager do, to requests that their models accept."""

    def __init__(self, region: str, stack: str) -> None:
        self.region, self.stack = region, stack

    def __call__(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        name = "".join(part.capitalize() for part in operation.split("_"))
        shape = (
            botocore.session.get_session()
            .get_service_model(service)
            .operation_model(name)
            .input_shape
        )
        assert shape is not None
        report = ParamValidator().validate(parameters, shape)
        assert report is not None
        assert not report.has_errors()
        if service == "eks":
            assert parameters["kubernetesVersion"] == "1.35"
            return {
                "addons": [{"addonVersions": [{"addonVersion": each} for each in ADDON_VERSIONS]}]
            }
        assert parameters["Name"].startswith(
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/"
        )
        return {"Parameter": {"Value": "1.35.2-20261112"}}


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    addons = [SimpleNamespace(inputs=each) for each in ADDONS]
    monkeypatch.setattr(
        "inferplan.workspace.workspace.Workspace.record",
        lambda _: SimpleNamespace(of_type=lambda _type: addons),
    )

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main.run(["versions", *arguments])
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return call


def test_the_newest_versions_are_listed_with_their_fields(run, monkeypatch):
    monkeypatch.setattr(newest, "Credentials", Aws)
    code, out, _ = run("prod", "--json")
    assert code == 0
    found = {each["field"]: each for each in json.loads(out)}
    assert {
        name: (each["pinned"], each["newest"]) for name, each in found.items() if "addons" in name
    } == {
        "cluster.create.addons.vpc-cni.version": ("v1.9.4-eksbuild.1", "v1.20.4-eksbuild.10"),
        "cluster.create.addons.coredns.version": (None, "v1.20.4-eksbuild.10"),
    }
    assert found["nodePools.h100.releaseVersion"]["newest"] == "1.35.2-20261112"


def test_without_credentials_it_says_so(run, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    code, _, err = run("prod")
    assert code == 1
    assert (
        "AWS was not asked: Unable to locate credentials. Log in, for example: aws sso login" in err
    )


def test_a_stack_outside_eks_has_none(run):
    code, _, err = run("local")
    assert code == 2
    assert "only EKS has versions to pin" in err


def test_the_parameter_of_each_image_is_the_one_of_its_family(monkeypatch):
    monkeypatch.chdir(ROOT)
    pool: Any = open_workspace("prod").settings.node_pools["h100"]
    assert module.image_parameter(pool, "1.35").endswith(
        "/x86_64/nvidia/recommended/release_version"
    )
    rocket = pool.model_copy(update={"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"})
    assert (
        module.image_parameter(rocket, "1.35")
        == "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/latest/image_version"
    )
